"""The rules that a WGSL archive must follow: manifest against itself and against the shader texts, before any GPU.

Sizes and counts are evaluated at the smallest and the largest batch that the manifest allows, so an expression without
a value is found here; what fits a given device at a given batch is the replay's plan. Raises MalformedShaderArchive.
"""

from collections.abc import Mapping

from service.artifacts.expressions import ExpressionError, evaluate
from service.artifacts.shader_manifest import (
    CONSTANT_BYTES_MAX,
    ITERATIONS_MAX,
    Binding,
    Buffer,
    ConstantBuffer,
    Dispatch,
    Expression,
    InputBuffer,
    Manifest,
    OutputBuffer,
    ScratchBuffer,
    WeightBuffer,
)
from service.artifacts.wgsl_text import (
    ShaderOutline,
    WgslError,
    integer,
    integer_constants,
    read_outline,
    workgroup_bytes,
)
from service.errors import MalformedShaderArchive

WORKGROUP_BYTES_MAX = 16 * 1024
GROUPS_MAX = 4
DISPATCHES_MAX = 1024
SYMBOL_MAX = 2**31
WORKGROUPS_PER_DIMENSION_MAX = 65_535
FEATURES = {"f16": "shader-f16", "subgroups": "subgroups"}
"""WGSL's `enable` names that an archive may use, with the WebGPU feature that `requires.features` must list."""
DEFAULT_LIMITS = {
    "maxStorageBufferBindingSize": 128 * 1024 * 1024,
    "maxBufferSize": 256 * 1024 * 1024,
    "maxStorageBuffersPerShaderStage": 8,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
    "maxComputeWorkgroupsPerDimension": WORKGROUPS_PER_DIMENSION_MAX,
}
"""WebGPU's defaults (section 3.6.2); an archive that needs more says so in `requires.limits`."""
MANIFEST = "manifest.json"


def check_archive(manifest: Manifest, sources: Mapping[str, str]) -> None:
    """Raises MalformedShaderArchive for the first rule broken. `sources` are the texts by shader name."""
    batches = _check_symbols(manifest)
    _check_requires(manifest)
    for name, buffer in manifest.buffers.items():
        _check_buffer(f"$.buffers.{name}", buffer, batches)
    _check_flow(manifest)
    outlines = {name: _outline(manifest, name, source) for name, source in sources.items()}
    for name, outline in outlines.items():
        _check_features(manifest, name, outline)
    for index, dispatch in enumerate(manifest.dispatches):
        _check_dispatch(f"$.dispatches[{index}]", manifest, dispatch, outlines, batches)


def refusal(reason: str, member: str = MANIFEST) -> MalformedShaderArchive:
    """The error: which member, and why the archive is refused as a whole."""
    return MalformedShaderArchive(f"{member}: {reason}", member=member, reason=reason)


def _check_symbols(manifest: Manifest) -> list[dict[str, int]]:
    """The smallest and the largest values of all symbols, as two environments for expressions."""
    smallest, largest = {}, {}
    for name, symbol in manifest.symbols.items():
        if not name.isidentifier() or not name.isascii():
            raise refusal(f"$.symbols: {name[:60]!r} is no name for a symbol")
        if not 1 <= symbol.min <= symbol.max <= SYMBOL_MAX or not 1 <= symbol.multiple_of <= symbol.max:
            raise refusal(f"$.symbols.{name}: wanted 1 <= min <= max <= {SYMBOL_MAX} and 1 <= multipleOf <= max")
        smallest[name] = -(-symbol.min // symbol.multiple_of) * symbol.multiple_of
        largest[name] = symbol.max // symbol.multiple_of * symbol.multiple_of
        if smallest[name] > largest[name]:
            raise refusal(f"$.symbols.{name}: no multiple of {symbol.multiple_of} lies between min and max")
    return [smallest, largest]


def _check_requires(manifest: Manifest) -> None:
    unknown = set(manifest.requires.features) - set(FEATURES.values())
    if unknown:
        raise refusal(f"$.requires.features: {sorted(unknown)} unknown, wanted of {sorted(FEATURES.values())}")
    for name, value in manifest.requires.limits.items():
        if name not in DEFAULT_LIMITS or value < 1:
            raise refusal(
                f"$.requires.limits.{name}: got {value}, wanted a number >= 1 for one of {sorted(DEFAULT_LIMITS)}"
            )
    if not 0 < manifest.tolerance.max_relative <= 1:
        raise refusal(f"$.tolerance.maxRelative: got {manifest.tolerance.max_relative}, wanted above 0, at most 1")


def _check_buffer(path: str, buffer: Buffer, batches: list[dict[str, int]]) -> None:
    if isinstance(buffer, ConstantBuffer):
        _check_constant(path, buffer)
    elif isinstance(buffer, ScratchBuffer):
        for size in _values(f"{path}.sizeBytes", buffer.size_bytes, batches):
            if size < 4 or size % 4:
                raise refusal(f"{path}.sizeBytes: got {size}, wanted a multiple of 4, at least 4")
    elif isinstance(buffer, WeightBuffer):
        _check_shapes(path, buffer.pad_to or buffer.shape, buffer.shape, batches)
    elif isinstance(buffer, OutputBuffer):
        _check_shapes(path, buffer.shape, buffer.crop or buffer.shape, batches)
    else:
        _check_shapes(path, buffer.shape, buffer.shape, batches)


def _check_shapes(
    path: str, whole: tuple[Expression, ...], part: tuple[Expression, ...], batches: list[dict[str, int]]
) -> None:
    """The part that carries values lies within the whole buffer, axis by axis, at every batch."""
    if len(whole) != len(part):
        raise refusal(f"{path}: {len(part)} axes within {len(whole)} axes, wanted as many")
    for axis, (large, small) in enumerate(zip(whole, part, strict=True)):
        pairs = zip(_values(path, large, batches), _values(path, small, batches), strict=True)
        if any(not 1 <= kept <= there for there, kept in pairs):
            raise refusal(f"{path}: axis {axis} uses {small} of {large}, wanted at least 1 and no more than there is")


def _check_constant(path: str, buffer: ConstantBuffer) -> None:
    try:
        size = len(buffer.content())
    except ValueError as error:
        raise refusal(f"{path}.base64: {error}") from None
    if size == 0 or size > CONSTANT_BYTES_MAX or size % 4:
        raise refusal(f"{path}.base64: {size} bytes, wanted a multiple of 4 up to {CONSTANT_BYTES_MAX}")


def _check_flow(manifest: Manifest) -> None:
    """Every buffer is bound somewhere, every output written, and no two outputs or inputs share a name."""
    bindings = [binding for dispatch in manifest.dispatches for binding in dispatch.bindings]
    bound = {binding.buffer for binding in bindings}
    written = {binding.buffer for binding in bindings if binding.access == "read_write"}
    if not 1 <= len(manifest.dispatches) <= DISPATCHES_MAX:
        raise refusal(f"$.dispatches: {len(manifest.dispatches)}, wanted 1 to {DISPATCHES_MAX}")
    for kind in (InputBuffer, OutputBuffer):
        names = [buffer.name for buffer in manifest.buffers.values() if isinstance(buffer, kind)]
        if len(set(names)) != len(names):
            raise refusal(f"$.buffers: two {kind.role} buffers have one name: {sorted(names)}")
    for name, buffer in manifest.buffers.items():
        if name not in bound:
            raise refusal(f"$.buffers.{name}: bound by no dispatch")
        if isinstance(buffer, OutputBuffer) and name not in written:
            raise refusal(f"$.buffers.{name}: an output that no dispatch writes")


def _outline(manifest: Manifest, name: str, source: str) -> ShaderOutline:
    try:
        return read_outline(source)
    except WgslError as error:
        raise refusal(str(error), manifest.shaders[name].path) from None


def _check_features(manifest: Manifest, name: str, outline: ShaderOutline) -> None:
    for feature in outline.features:
        if FEATURES.get(feature) not in manifest.requires.features:
            path = manifest.shaders[name].path
            raise refusal(f"enables {feature!r}, which $.requires.features of {MANIFEST} does not list", path)


def _check_dispatch(
    path: str,
    manifest: Manifest,
    dispatch: Dispatch,
    outlines: Mapping[str, ShaderOutline],
    batches: list[dict[str, int]],
) -> None:
    if dispatch.shader not in outlines:
        raise refusal(f"{path}.shader: {dispatch.shader!r} is not in $.shaders")
    outline, member = outlines[dispatch.shader], manifest.shaders[dispatch.shader].path
    for axis, workgroups in enumerate(dispatch.workgroups):
        smallest, _ = _values(f"{path}.workgroups[{axis}]", workgroups, batches)
        if not 1 <= smallest <= WORKGROUPS_PER_DIMENSION_MAX:
            raise refusal(f"{path}.workgroups[{axis}]: {smallest}, wanted 1 to {WORKGROUPS_PER_DIMENSION_MAX}")
    if max(_values(f"{path}.maxIterations", dispatch.max_iterations, batches)) > ITERATIONS_MAX:
        raise refusal(f"{path}.maxIterations: {dispatch.max_iterations}, wanted at most {ITERATIONS_MAX}")
    unknown = set(dispatch.constants) - outline.overrides
    if unknown:
        raise refusal(f"{path}.constants: {sorted(unknown)} are no overrides of {member}")
    for name, value in dispatch.constants.items():
        if not isinstance(value, float):
            _values(f"{path}.constants.{name}", value, batches)
    try:
        _check_bindings(path, manifest, dispatch, outline)
        for symbols in batches:
            _check_workgroup(path, manifest, dispatch, outline, symbols)
    except WgslError as error:
        raise refusal(str(error), member) from None


def _check_bindings(path: str, manifest: Manifest, dispatch: Dispatch, outline: ShaderOutline) -> None:
    """The shader's declarations and the dispatch's bindings are the same set, with the same access."""
    declared = {(found.group, found.binding): found for found in outline.resources}
    given = {(binding.group, binding.binding): binding for binding in dispatch.bindings}
    if len(given) != len(dispatch.bindings):
        raise refusal(f"{path}.bindings: one group and binding is given twice")
    for place in sorted(declared.keys() | given.keys()):
        at = f"{path}.bindings: @group({place[0]}) @binding({place[1]})"
        if place not in given:
            raise refusal(f"{at} is declared in line {declared[place].line} of the shader and not given")
        if place not in declared:
            raise refusal(f"{at} is given and not declared in the shader")
        if declared[place].access != given[place].access:
            raise refusal(f"{at}: the shader says {declared[place].access}, the manifest {given[place].access}")
        if place[0] >= GROUPS_MAX:
            raise refusal(f"{at}: wanted a group below {GROUPS_MAX}")
    for binding in dispatch.bindings:
        _check_access(path, manifest, binding)
    _check_binding_counts(path, manifest, dispatch)


def _check_access(path: str, manifest: Manifest, binding: Binding) -> None:
    buffer = manifest.buffers.get(binding.buffer)
    if buffer is None:
        raise refusal(f"{path}.bindings: buffer {binding.buffer!r} is not in $.buffers")
    if binding.access == "uniform" and not isinstance(buffer, ConstantBuffer):
        raise refusal(f"{path}.bindings: {binding.buffer!r} is of role {buffer.role}; only constants may be uniforms")
    if binding.access == "read_write" and not isinstance(buffer, OutputBuffer | ScratchBuffer):
        raise refusal(f"{path}.bindings: {binding.buffer!r} is of role {buffer.role}, which is never writable")


def _check_binding_counts(path: str, manifest: Manifest, dispatch: Dispatch) -> None:
    writable = {binding.buffer for binding in dispatch.bindings if binding.access == "read_write"}
    names = [binding.buffer for binding in dispatch.bindings]
    for name in writable:
        if names.count(name) > 1:
            raise refusal(f"{path}.bindings: writable buffer {name!r} is bound twice")
    storage = sum(binding.access != "uniform" for binding in dispatch.bindings)
    limit = limits_of(manifest)["maxStorageBuffersPerShaderStage"]
    if storage > limit:
        raise refusal(f"{path}.bindings: {storage} storage buffers, wanted at most {limit}")


def _check_workgroup(
    path: str, manifest: Manifest, dispatch: Dispatch, outline: ShaderOutline, symbols: Mapping[str, int]
) -> None:
    """Entry point, workgroup size and workgroup memory with this dispatch's constants."""
    points = outline.entry_points
    if dispatch.entry_point not in points:
        raise refusal(f"{path}.entryPoint: {dispatch.entry_point!r} is no compute entry point; found {sorted(points)}")
    given = {
        name: evaluate(value, symbols) for name, value in dispatch.constants.items() if not isinstance(value, float)
    }
    names = integer_constants(outline, given)
    size = workgroup_size(points[dispatch.entry_point], names, f"{path}: {dispatch.entry_point}")
    limits = limits_of(manifest)
    for axis, count in zip("XYZ", size, strict=True):
        if not 1 <= count <= limits[f"maxComputeWorkgroupSize{axis}"]:
            raise refusal(f"{path}: workgroup size {list(size)} is beyond maxComputeWorkgroupSize{axis}")
    if size[0] * size[1] * size[2] > limits["maxComputeInvocationsPerWorkgroup"]:
        raise refusal(f"{path}: workgroup size {list(size)} is beyond maxComputeInvocationsPerWorkgroup")
    memory = workgroup_bytes(outline, names)
    if memory > WORKGROUP_BYTES_MAX:
        # Some drivers take more than their limit in silence, so this is our check to make.
        raise refusal(f"{path}: {memory} bytes of workgroup memory, wanted at most {WORKGROUP_BYTES_MAX}")


def workgroup_size(text: str | None, names: Mapping[str, int], place: str) -> tuple[int, int, int]:
    """The three sizes inside `@workgroup_size(…)`, 1 where left out. Raises MalformedShaderArchive when unreadable."""
    try:
        sizes = [integer(part, names) for part in (text or "").split(",") if part.strip()]
    except ExpressionError as error:
        raise refusal(f"{place}: the workgroup size cannot be read: {error}") from None
    if not 1 <= len(sizes) <= 3:
        raise refusal(f"{place}: wanted @workgroup_size with 1 to 3 sizes")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def limits_of(manifest: Manifest) -> dict[str, int]:
    """WebGPU's default limits, raised where the archive requires more."""
    return DEFAULT_LIMITS | {name: max(value, DEFAULT_LIMITS[name]) for name, value in manifest.requires.limits.items()}


def _values(path: str, expression: Expression, batches: list[dict[str, int]]) -> list[int]:
    try:
        return [evaluate(expression, symbols) for symbols in batches]
    except ExpressionError as error:
        raise refusal(f"{path}: {error}") from None
