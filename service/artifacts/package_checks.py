"""Whether the files of one package belong together: module.json, the WGSL archive and model.wasm. Pure."""

from service.artifacts.module_package import ModulePackage, TensorSpec
from service.artifacts.shader_archive import (
    InputBuffer,
    OutputBuffer,
    ShaderArchive,
    WeightBuffer,
)
from service.artifacts.wasm_outline import check_wasm
from service.domain.canonical import sha256_hex
from service.errors import MalformedModule, MalformedShaderArchive


def check_archive_fits(module: ModulePackage, archive: ShaderArchive) -> None:
    """Raises MalformedShaderArchive unless this is the module's own archive, with its tensors, inputs and outputs."""
    if module.shader_archive != archive.sha256:
        raise MalformedShaderArchive(
            f"the archive has SHA-256 {archive.sha256}, module.json names {module.shader_archive}",
            got=archive.sha256, wanted=module.shader_archive,
        )  # fmt: skip
    tensors = module.tensor_shapes()
    inputs = {spec.name: spec for spec in module.forward_inputs}
    outputs = {spec.name: spec for spec in module.outputs}
    made: set[str] = set()
    for name, buffer in archive.manifest.buffers.items():
        if isinstance(buffer, WeightBuffer):
            if tensors.get(buffer.tensor) != buffer.shape:
                raise _mismatch(
                    name, f"tensor {buffer.tensor!r} of shape {list(buffer.shape)}", sorted(tensors.items())
                )
        elif isinstance(buffer, InputBuffer):
            _check_spec(name, buffer.name, buffer.dtype, buffer.shape, inputs)
        elif isinstance(buffer, OutputBuffer):
            _check_spec(name, buffer.name, buffer.dtype, buffer.crop or buffer.shape, outputs)
            made.add(buffer.name)
    missing = outputs.keys() - made
    if missing:
        raise _mismatch("outputs", f"none for {sorted(missing)}", "a buffer for every output of module.json")


def check_wasm_fits(module: ModulePackage, wasm: bytes) -> None:
    """Raises MalformedModule unless this is the module's own WebAssembly file and keeps the ABI."""
    digest = sha256_hex(wasm)
    if module.wasm != digest:
        raise MalformedModule(f"model.wasm has SHA-256 {digest}, module.json names {module.wasm}")
    check_wasm(wasm)


def _check_spec(buffer: str, name: str, dtype: str, shape: tuple[int | str, ...], specs: dict[str, TensorSpec]) -> None:
    spec = specs.get(name)
    if spec is None:
        raise _mismatch(buffer, f"the name {name!r}", f"one of {sorted(specs)}")
    if (dtype, shape) != (spec.dtype, spec.shape):
        raise _mismatch(buffer, f"{dtype} {list(shape)}", f"{spec.dtype} {list(spec.shape)} as in module.json")


def _mismatch(buffer: str, got: object, wanted: object) -> MalformedShaderArchive:
    path = f"$.buffers.{buffer}"
    return MalformedShaderArchive(
        f"manifest.json: {path}: got {got}, wanted {wanted}", member="manifest.json", path=path
    )
