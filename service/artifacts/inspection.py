"""One look at an artifact of any role, for `artifact.archived.inspection`. JSON-ready; bad bytes are a finding.

Every answer has `format`, `well_formed` (True, False, or None when not decided) and `reason`. Nothing is executed.
"""

from collections.abc import Callable
from typing import Any

from service.artifacts.byte_source import ByteSource, Readable, as_source, read_all
from service.artifacts.checkpoint_inspection import tensor_documents
from service.artifacts.codecs import codec_of
from service.artifacts.module_package import MODULE_BYTES_MAX, ModulePackage, TensorSpec, read_module
from service.artifacts.safetensors_header import TensorEntry
from service.artifacts.shader_archive import read_shader_archive
from service.artifacts.tensor_file import Layout, read_layout
from service.artifacts.tensor_statistics import measure
from service.artifacts.wasm_outline import WASM_BYTES_MAX, check_wasm
from service.artifacts.zip_container import ARCHIVE_BYTES_MAX
from service.domain.events import ArtifactRole
from service.errors import TooLarge, Unprocessable

SPEC_DTYPES = {"f32": ("F32", "F64"), "i32": ("I32", "I64"), "u32": ("U32", "U64")}
"""Dtypes of a tensor file that a module's input may be given in; the replay converts them."""


def inspect_artifact(role: ArtifactRole, data: Readable, module: ModulePackage | None = None) -> dict[str, Any]:
    """What the bytes are for their role. `module` is the module they belong to, None when it is not known."""
    source = as_source(data)
    if role == "checkpoint":
        codec = codec_of(source)
        return {"format": codec.name, **codec.inspect(source, module)}
    inspect = _INSPECTIONS.get(role)
    if inspect is None:
        return {"format": role, "well_formed": None, "reason": f"a {role} is kept as it is and not looked into"}
    try:
        return {"format": role, "well_formed": True, "reason": None, **inspect(source, module)}
    except (Unprocessable, TooLarge) as error:
        return {"format": role, "well_formed": False, "reason": error.message, "code": error.code}


def _inspect_module(source: ByteSource, _: ModulePackage | None) -> dict[str, Any]:
    module = read_module(_bounded(source, MODULE_BYTES_MAX))
    return {
        "name": module.name,
        "module_version": module.module_version,
        "parameter_bytes": module.parameter_bytes,
        "metrics": [
            {"key": metric.key, "label": metric.label, "direction": metric.direction, "kind": metric.kind}
            for metric in module.metrics
        ],
        "work_source": module.work_source,
        "inputs": "none" if module.inputs == "none" else [spec.name for spec in module.inputs],
        "wasm": module.wasm,
        "shader_archive": module.shader_archive,
        "has_reference": bool(module.reference),
    }


def _inspect_shader_archive(source: ByteSource, module: ModulePackage | None) -> dict[str, Any]:
    archive = read_shader_archive(_bounded(source, ARCHIVE_BYTES_MAX))
    return {
        "name": archive.manifest.name,
        "shaders": sorted(archive.sources),
        "dispatches": len(archive.manifest.dispatches),
        "matches_module": None if module is None else module.shader_archive == archive.sha256,
    }


def _inspect_wasm(source: ByteSource, _: ModulePackage | None) -> dict[str, Any]:
    check_wasm(_bounded(source, WASM_BYTES_MAX))
    return {"size_bytes": source.size_bytes}


def _inspect_update(source: ByteSource, _: ModulePackage | None) -> dict[str, Any]:
    layout = read_layout(source)
    return tensor_documents([measure(source, layout, entry) for entry in layout.entries])


def _inspect_validation(source: ByteSource, module: ModulePackage | None) -> dict[str, Any]:
    layout = read_layout(source)
    document = tensor_documents([measure(source, layout, entry) for entry in layout.entries])
    return document | {"fits_module": _validation_fit(layout, module)}


def _validation_fit(layout: Layout, module: ModulePackage | None) -> dict[str, Any]:
    """Whether there is one tensor for each forward input and each metric target, with one number of examples."""
    if module is None:
        return {"status": "not checked", "reason": "the module is not known"}
    found = {entry.name: entry for entry in layout.entries}
    wanted = {spec.name for spec in module.forward_inputs}
    wanted |= {metric.target for metric in module.metrics if metric.target is not None}
    missing = sorted(wanted - found.keys())
    counts = {entry.shape[0] if entry.shape else None for name, entry in found.items() if name in wanted}
    problems = [f"no tensor {name!r}" for name in missing]
    problems += [
        problem
        for spec in module.forward_inputs
        if spec.name in found and (problem := _input_problem(spec, found[spec.name])) is not None
    ]
    if len(counts) > 1:
        problems.append(f"the tensors have different numbers of examples: {sorted(map(str, counts))}")
    return {"status": "mismatch" if problems else "match", "reason": "; ".join(problems) or None}


def _input_problem(spec: TensorSpec, entry: TensorEntry) -> str | None:
    if entry.shape[1:] != spec.shape[1:] or entry.dtype not in SPEC_DTYPES[spec.dtype]:
        got = f"{entry.dtype} {list(entry.shape)}"
        return f"tensor {spec.name!r} is {got}, the module wants {spec.dtype} {list(spec.shape)}"
    return None


def _bounded(source: ByteSource, size_bytes_max: int) -> bytes:
    if source.size_bytes > size_bytes_max:
        raise TooLarge(
            f"got {source.size_bytes} bytes, wanted at most {size_bytes_max}",
            limit=size_bytes_max, got=source.size_bytes, unit="bytes",
        )  # fmt: skip
    return bytes(read_all(source))


_INSPECTIONS: dict[str, Callable[[ByteSource, ModulePackage | None], dict[str, Any]]] = {
    "module": _inspect_module,
    "shader-archive": _inspect_shader_archive,
    "wasm": _inspect_wasm,
    "update": _inspect_update,
    "validation": _inspect_validation,
}
