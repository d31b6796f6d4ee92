"""From a folder of sources to a package (`retrace module pack`), and the check of a package (`retrace module check`).

A source folder holds `module.json` (its `wasm` and `shaderArchive` are filled in here), and where the model has them
`manifest.json` with `shaders/*.wgsl`, and `model.wat` or `model.wasm`. Packing is deterministic: equal sources give
equal digests. This is the one module of the room that touches folders of people's own; nothing is executed.
"""

from pathlib import Path
from typing import Any

import msgspec

from service.artifacts.module_package import MODULE_BYTES_MAX, ModulePackage, read_module, write_module
from service.artifacts.package_checks import check_archive_fits, check_wasm_fits
from service.artifacts.shader_archive import Manifest, read_shader_archive, write_shader_archive
from service.artifacts.shader_checks import refusal
from service.artifacts.strict_json import NotStrict, decode_strict
from service.artifacts.wasm_outline import check_wasm
from service.domain.canonical import sha256_hex
from service.errors import MalformedModule, SetupError

MODULE_NAME, WASM_NAME, WAT_NAME, MANIFEST_NAME = "module.json", "model.wasm", "model.wat", "manifest.json"
SHADER_FOLDER, ARCHIVE_SUFFIX = "shaders", ".wgsl.zip"


class PackedModule(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a package as bytes. `notes` say what is missing and why."""

    module: ModulePackage
    module_bytes: bytes
    module_sha256: str
    shader_archive_bytes: bytes | None
    wasm_bytes: bytes | None
    notes: tuple[str, ...] = ()


def pack_module(folder: Path) -> PackedModule:
    """The package made from a source folder.

    Raises SetupError for a missing module.json, MalformedModule or MalformedShaderArchive for broken rules.
    """
    draft = _read_draft(folder / MODULE_NAME)
    archive = _pack_shaders(folder)
    wasm, notes = _pack_wasm(folder)
    return assemble_package(draft, archive, wasm, notes)


def assemble_package(
    draft: ModulePackage, archive: bytes | None, wasm: bytes | None, notes: tuple[str, ...] = ()
) -> PackedModule:
    """A package from its parts: the draft's digests are set to those of the files, then everything is checked."""
    module = msgspec.structs.replace(
        draft,
        shader_archive=None if archive is None else sha256_hex(archive),
        wasm=None if wasm is None else sha256_hex(wasm),
    )
    if archive is not None:
        check_archive_fits(module, read_shader_archive(archive))
    if wasm is not None:
        check_wasm_fits(module, wasm)
    data = write_module(module)
    return PackedModule(
        module=module, module_bytes=data, module_sha256=sha256_hex(data), shader_archive_bytes=archive,
        wasm_bytes=wasm, notes=notes,
    )  # fmt: skip


def write_package(package: PackedModule, folder: Path) -> list[Path]:
    """Writes the package's files into a folder; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        MODULE_NAME: package.module_bytes,
        WASM_NAME: package.wasm_bytes,
        f"{_file_stem(package.module.name)}{ARCHIVE_SUFFIX}": package.shader_archive_bytes,
    }
    written = [folder / name for name, content in files.items() if content is not None]
    for path in written:
        path.write_bytes(files[path.name] or b"")
    return written


def check_package(path: Path) -> dict[str, Any]:
    """What a module.json, a WGSL archive, a model.wasm or a folder of these holds, each checked by itself and together.

    Raises MalformedModule or MalformedShaderArchive for the first rule broken, SetupError when nothing is there.
    """
    if path.is_dir():
        return _check_folder(path)
    data = _read_file(path)
    if path.name.endswith(ARCHIVE_SUFFIX):
        archive = read_shader_archive(data)
        return {
            "shader_archive": {"name": archive.manifest.name, "sha256": archive.sha256, **_counts(archive.manifest)}
        }
    if path.suffix == ".wasm":
        check_wasm(data)
        return {"wasm": {"sha256": sha256_hex(data), "size_bytes": len(data)}}
    return {"module": _module_summary(read_module(data), data)}


def _check_folder(folder: Path) -> dict[str, Any]:
    data = _read_file(folder / MODULE_NAME)
    module = read_module(data)
    found: dict[str, Any] = {"module": _module_summary(module, data)}
    archives = sorted(folder.glob(f"*{ARCHIVE_SUFFIX}"))
    if len(archives) > 1:
        raise MalformedModule(f"{folder} holds {len(archives)} WGSL archives, wanted at most one")
    for path in archives:
        check_archive_fits(module, read_shader_archive(_read_file(path)))
        found |= check_package(path)
    if (folder / WASM_NAME).exists():
        check_wasm_fits(module, _read_file(folder / WASM_NAME))
        found |= check_package(folder / WASM_NAME)
    named = {"shader_archive": module.shader_archive, "wasm": module.wasm}
    found["missing"] = [role for role, digest in named.items() if digest is not None and role not in found]
    return found


def _module_summary(module: ModulePackage, data: bytes) -> dict[str, Any]:
    engines = {"gpu": module.shader_archive, "wasm": module.wasm, "reference": module.reference}
    return {
        "name": module.name,
        "module_version": module.module_version,
        "sha256": sha256_hex(data),
        "parameters": len(module.parameters),
        "parameter_bytes": module.parameter_bytes,
        "metrics": [metric.key for metric in module.metrics],
        "engines": [engine for engine, means in engines.items() if means],
    }


def _counts(manifest: Manifest) -> dict[str, int]:
    return {
        "shaders": len(manifest.shaders),
        "buffers": len(manifest.buffers),
        "dispatches": len(manifest.dispatches),
    }


def _read_draft(path: Path) -> ModulePackage:
    """module.json before its digests are known."""
    data = _read_file(path)
    if len(data) > MODULE_BYTES_MAX:
        raise MalformedModule(f"{path} has {len(data)} bytes, wanted at most {MODULE_BYTES_MAX}")
    try:
        return decode_strict(data, ModulePackage)
    except NotStrict as error:
        raise MalformedModule(f"{path}: {error.reason}", offset=error.offset) from None


def _pack_shaders(folder: Path) -> bytes | None:
    """The WGSL archive of the folder, None when it has no manifest."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return None
    try:
        manifest = decode_strict(_read_file(path), Manifest)
    except NotStrict as error:
        raise refusal(error.reason, str(path)) from None
    sources = {source.stem: source.read_text() for source in sorted((folder / SHADER_FOLDER).glob("*.wgsl"))}
    return write_shader_archive(manifest, sources)


def _pack_wasm(folder: Path) -> tuple[bytes | None, tuple[str, ...]]:
    """model.wasm as it is, or built from model.wat; and what there is to say about it."""
    if (folder / WASM_NAME).exists():
        return _read_file(folder / WASM_NAME), ()
    if not (folder / WAT_NAME).exists():
        return None, ()
    try:
        import wasmtime
    except ImportError:
        return None, (f"{WAT_NAME} was not built: wasmtime is not installed (pip install 'retrace[wasm]')",)
    try:
        return bytes(wasmtime.wat2wasm((folder / WAT_NAME).read_text())), ()
    except wasmtime.WasmtimeError as error:
        raise MalformedModule(f"{folder / WAT_NAME}: {error}") from None


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}; wanted a file of a package") from None


def _file_stem(name: str) -> str:
    """The module's name as a file name: anything but letters, digits, dot, dash and underscore becomes a dash."""
    stem = "".join(character if character.isalnum() or character in "._-" else "-" for character in name)
    return stem.lstrip(".") or "module"
