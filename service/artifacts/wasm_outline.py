"""What a WebAssembly file imports and exports, read from its sections; nothing is compiled or run.

Enough to refuse, long before a replay, a file that wants imports or lacks what the replay calls (WebAssembly core
specification 2.0, section 5.5). Raises MalformedModule with the byte offset.
"""

from typing import NamedTuple

from service.errors import MalformedModule

MAGIC = b"\x00asm\x01\x00\x00\x00"
WASM_BYTES_MAX = 16 * 1024 * 1024
EXPORTS_WANTED = {"memory": "memory", "allocate": "function", "forward": "function"}
_IMPORT_SECTION, _EXPORT_SECTION = 2, 7
_KINDS = {0: "function", 1: "table", 2: "memory", 3: "global"}


class WasmOutline(NamedTuple):
    """`imports`: how many; `exports`: kind by name."""

    imports: int
    exports: dict[str, str]


def read_wasm_outline(data: bytes) -> WasmOutline:
    """The outline. Raises MalformedModule for bytes that are no WebAssembly file."""
    if not data.startswith(MAGIC):
        raise MalformedModule("model.wasm: got other bytes at 0, wanted the WebAssembly magic of version 1", offset=0)
    cursor, imports, exports = _Cursor(data, len(MAGIC), len(data)), 0, {}
    while cursor.at < cursor.end:
        kind = cursor.byte()
        size = cursor.unsigned()
        section = cursor.part(size)
        if kind == _IMPORT_SECTION:
            imports = section.unsigned()
        elif kind == _EXPORT_SECTION:
            exports = _read_exports(section)
    return WasmOutline(imports, exports)


def check_wasm(data: bytes) -> None:
    """Raises MalformedModule unless the file keeps the ABI: no imports; memory, allocate and forward exported."""
    if len(data) > WASM_BYTES_MAX:
        raise MalformedModule(f"model.wasm: got {len(data)} bytes, wanted at most {WASM_BYTES_MAX}")
    outline = read_wasm_outline(data)
    if outline.imports:
        raise MalformedModule(f"model.wasm: got {outline.imports} imports, wanted none")
    for name, kind in EXPORTS_WANTED.items():
        if outline.exports.get(name) != kind:
            raise MalformedModule(f"model.wasm: got exports {outline.exports}, wanted {name!r} as a {kind}")


class _Cursor:
    """A place in a part of the bytes that never leaves the part."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise MalformedModule(f"model.wasm: cut at byte {self.at}", offset=self.at)
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """A LEB128 number of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedModule(f"model.wasm: a number of more than 32 bits at byte {self.at}", offset=self.at)

    def part(self, size: int) -> "_Cursor":
        if size > self.end - self.at:
            raise MalformedModule(f"model.wasm: {size} bytes wanted at byte {self.at}, the file ends", offset=self.at)
        self.at += size
        return _Cursor(self.data, self.at - size, self.at)

    def name(self) -> str:
        part = self.part(self.unsigned())
        try:
            return self.data[part.at : part.end].decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedModule(f"model.wasm: a name at byte {part.at} is no UTF-8", offset=part.at) from None


def _read_exports(section: _Cursor) -> dict[str, str]:
    exports: dict[str, str] = {}
    for _ in range(section.unsigned()):
        name = section.name()
        exports[name] = _KINDS.get(section.byte(), "unknown")
        section.unsigned()
    return exports
