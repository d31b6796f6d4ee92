"""What can be read from a WGSL text without compiling it: bindings, workgroup memory, entry points, enabled features.

This is no WGSL parser. It reads the few declarations that the manifest must agree with, and refuses what it cannot
read, so that nothing slips by unread; the shader compiler of the replay remains the final judge of everything else.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from service.artifacts.expressions import ExpressionError, evaluate

_COMMENT = re.compile(r"//|/\*")
_LINE_END = re.compile("[\n\v\f\r\u0085\u2028\u2029]|$")
_BLOCK_MARK = re.compile(r"/\*|\*/")
# Counts are bounded and quantifiers possessive, so that no text makes a search take more than linear time.
_ATTRIBUTES = r"(?P<attributes>(?:@\s*+\w++\s*+(?:\((?:[^()]|\([^()]{0,99}\)){0,99}\))?+\s*+){1,8})"
_BINDING = re.compile(r"@\s*+(?:group|binding)\b")
_RESOURCE = re.compile(
    _ATTRIBUTES + r"var\s*+(?:<\s*+(?P<space>\w++)\s*+(?:,\s*+(?P<access>\w++)\s*+)?+,?+\s*+>)?+\s*+(?P<name>\w++)"
)
_NUMBERED = re.compile(r"@\s*(group|binding)\s*\(\s*([0-9]{1,9})[iu]?\s*,?\s*\)")
_WORKGROUP_VARIABLE = re.compile(r"var\s*+<\s*+workgroup\s*+,?+\s*+>\s*+(?P<name>\w++)\s*+:(?P<type>[^;=]{1,300});")
_WORKGROUP_MARK = re.compile(r"\bvar\s*+<\s*+workgroup\b")
_ENTRY_POINT = re.compile(_ATTRIBUTES + r"fn\s++(?P<name>\w++)")
_COMPUTE = re.compile(r"@\s*+compute\b")
_WORKGROUP_SIZE = re.compile(r"@\s*+workgroup_size\s*+\(((?:[^()]|\([^()]{0,99}\)){0,99})\)")
_CONSTANT = re.compile(r"\b(?:const|override)\s++(\w++)\s*+(?::\s*+\w++\s*+)?+=([^;]{1,200});")
_OVERRIDE = re.compile(r"\boverride\s++(\w++)")
_ENABLE = re.compile(r"\benable\s++([\w\s,]{1,400});")
_INTEGER_SUFFIX = re.compile(r"\b([0-9]+)[iu]\b")
_SCALARS = {"f32": 4, "i32": 4, "u32": 4, "bool": 4, "f16": 2}
_SHORT_SCALARS = {"f": 4, "i": 4, "u": 4, "h": 2}
_VECTOR = re.compile(r"vec([234])(?:<\s*(\w+)\s*,?\s*>|([fiuh]))")
_MATRIX = re.compile(r"mat([234])x([234])(?:<\s*(\w+)\s*,?\s*>|([fh]))")
_ATOMIC = re.compile(r"atomic\s*<\s*[iu]32\s*,?\s*>")
_ARRAY = re.compile(r"array\s*<(?P<item>.+?),(?P<count>[^,<>]+),?\s*>", re.DOTALL)

RESOURCES_MAX = 64
ATTRIBUTES_MAX = 2048
CONSTANTS_MAX = 1024
WORKGROUP_VARIABLES_MAX = 64

Access = Literal["read", "read_write", "uniform"]


class WgslError(ValueError):
    """The text holds a declaration that cannot be read; `line` (from 1) says where."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class Resource(NamedTuple):
    """One buffer that the shader declares."""

    group: int
    binding: int
    access: Access
    name: str
    line: int


class WorkgroupVariable(NamedTuple):
    """One `var<workgroup>`; its size may depend on constants."""

    name: str
    type_text: str
    line: int


class ShaderOutline(NamedTuple):
    """What is read from one text, once. `constants` are `const` and `override` names with the text of their value."""

    resources: tuple[Resource, ...]
    entry_points: dict[str, str | None]
    """Each compute entry point, with the text inside its `@workgroup_size(…)`."""
    overrides: frozenset[str]
    features: frozenset[str]
    """Names behind `enable`."""
    constants: tuple[tuple[str, str], ...]
    workgroup: tuple[WorkgroupVariable, ...]


def read_outline(source: str) -> ShaderOutline:
    """The outline of a WGSL text. Raises WgslError for a declaration that cannot be read."""
    code = strip_comments(source)
    if code.count("@") > ATTRIBUTES_MAX:
        raise WgslError(f"more than {ATTRIBUTES_MAX} attributes", 1)
    constants = tuple((match[1], match[2]) for match in _CONSTANT.finditer(code))
    if len(constants) > CONSTANTS_MAX:
        raise WgslError(f"{len(constants)} constants, wanted at most {CONSTANTS_MAX}", 1)
    return ShaderOutline(
        resources=tuple(_resources(code)),
        entry_points=_entry_points(code),
        overrides=frozenset(_OVERRIDE.findall(code)),
        features=frozenset(
            name.strip() for names in _ENABLE.findall(code) for name in names.split(",") if name.strip()
        ),
        constants=constants,
        workgroup=tuple(_workgroup_variables(code)),
    )


def integer(text: str, names: Mapping[str, int]) -> int:
    """The value of an integer expression of WGSL (`64u`, `TILE * 4`). Raises ExpressionError when it has none here."""
    return evaluate(_INTEGER_SUFFIX.sub(r"\1", text.strip()), names)


def integer_constants(outline: ShaderOutline, given: Mapping[str, int]) -> dict[str, int]:
    """Values of `const` and `override` names that are integers; those `given` (the pipeline's) go first."""
    values: dict[str, int] = dict(given)
    for name, text in outline.constants:
        if name not in given:
            # A float or a call has no value here: whoever needs it as an integer is refused then.
            with suppress(ExpressionError):
                values[name] = integer(text, values)
    return values


def workgroup_bytes(outline: ShaderOutline, names: Mapping[str, int]) -> int:
    """Bytes of all `var<workgroup>` together (sizes by WGSL section 14.4.1). Raises WgslError for an unknown size."""
    total = 0
    for variable in outline.workgroup:
        try:
            size, alignment = _layout(variable.type_text, names)
        except ExpressionError as error:
            reason = f"the size of workgroup variable {variable.name!r} is not known: {error}"
            raise WgslError(reason, variable.line) from None
        total = -(-total // alignment) * alignment + size
    return total


def strip_comments(text: str) -> str:
    """The text with each comment blanked, line by line as before. Block comments nest (WGSL section 3.3)."""
    kept: list[str] = []
    at = 0
    while (start := _COMMENT.search(text, at)) is not None:
        kept.append(text[at : start.start()])
        at = _line_end(text, start.end()) if start.group() == "//" else _block_end(text, start.end())
        kept.append("\n" * text.count("\n", start.start(), at) or " ")
    return "".join([*kept, text[at:]])


def line_of(text: str, index: int) -> int:
    """The line, from 1, on which a character stands."""
    return text.count("\n", 0, index) + 1


def _resources(code: str) -> Iterator[Resource]:
    """Every `@group(g) @binding(b) var<…>`, which must be a plain buffer."""
    marks = len(_BINDING.findall(code))
    if marks > 2 * RESOURCES_MAX:
        raise WgslError(f"more than {RESOURCES_MAX} bindings", 1)
    for match in _RESOURCE.finditer(code):
        line = line_of(code, match.start())
        numbers = {kind: int(number) for kind, number in _NUMBERED.findall(match["attributes"])}
        marks -= len(_BINDING.findall(match["attributes"]))
        if numbers.keys() != {"group", "binding"}:
            raise WgslError("wanted @group and @binding with plain numbers", line)
        access = _access(match["space"], match["access"])
        if access is None:
            raise WgslError(
                f"variable {match['name']!r} is no storage buffer (read or read_write) and no uniform", line
            )
        yield Resource(numbers["group"], numbers["binding"], access, match["name"], line)
    if marks:
        raise WgslError(f"{marks} of @group and @binding belong to no variable that can be read", 1)


def _entry_points(code: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for match in _ENTRY_POINT.finditer(code):
        if _COMPUTE.search(match["attributes"]):
            size = _WORKGROUP_SIZE.search(match["attributes"])
            found[match["name"]] = None if size is None else size.group(1)
    return found


def _workgroup_variables(code: str) -> Iterator[WorkgroupVariable]:
    count = len(_WORKGROUP_MARK.findall(code))
    if count > WORKGROUP_VARIABLES_MAX:
        raise WgslError(f"{count} workgroup variables, wanted at most {WORKGROUP_VARIABLES_MAX}", 1)
    for match in _WORKGROUP_VARIABLE.finditer(code):
        count -= 1
        yield WorkgroupVariable(match["name"], match["type"].strip(), line_of(code, match.start()))
    if count:
        raise WgslError("a workgroup variable cannot be read; wanted var<workgroup> name: type;", 1)


def _line_end(text: str, at: int) -> int:
    match = _LINE_END.search(text, at)
    return len(text) if match is None else match.start()


def _block_end(text: str, at: int) -> int:
    depth, first = 1, at
    while depth:
        mark = _BLOCK_MARK.search(text, at)
        if mark is None:
            raise WgslError("a block comment has no end", line_of(text, first))
        depth += 1 if mark.group() == "/*" else -1
        at = mark.end()
    return at


def _access(space: str | None, access: str | None) -> Access | None:
    if space == "uniform" and access in (None, "read"):
        return "uniform"
    if space == "storage" and access in (None, "read", "read_write"):
        return "read_write" if access == "read_write" else "read"
    return None


def _layout(type_text: str, names: Mapping[str, int]) -> tuple[int, int]:
    """(size, alignment) in bytes of a type: scalar, vector, matrix, atomic, or an array of these with a known count."""
    if type_text in _SCALARS:
        return _SCALARS[type_text], _SCALARS[type_text]
    if match := _VECTOR.fullmatch(type_text):
        return _vector_layout(int(match[1]), _scalar_size(match[2], match[3]))
    if match := _MATRIX.fullmatch(type_text):
        size, alignment = _vector_layout(int(match[2]), _scalar_size(match[3], match[4]))
        return int(match[1]) * (-(-size // alignment) * alignment), alignment
    if _ATOMIC.fullmatch(type_text):
        return 4, 4
    if match := _ARRAY.fullmatch(type_text):
        size, alignment = _layout(match["item"].strip(), names)
        return integer(match["count"], names) * (-(-size // alignment) * alignment), alignment
    raise ExpressionError(f"{type_text!r} is no type that is read here (wanted arrays of scalars, vectors or matrices)")


def _vector_layout(count: int, scalar: int) -> tuple[int, int]:
    return count * scalar, (4 if count == 3 else count) * scalar


def _scalar_size(long_name: str | None, short_name: str | None) -> int:
    if short_name is not None:
        return _SHORT_SCALARS[short_name]
    if long_name not in _SCALARS:
        raise ExpressionError(f"{long_name!r} is no scalar type")
    return _SCALARS[long_name]
