"""The rules that a decoded module.json must follow beyond its types: names, offsets, metrics, the reference list.

Each rule raises MalformedModule with the path of the field, what was got and what was wanted.
"""

from collections.abc import Iterable

from service.artifacts.module_manifest import BATCH, ModulePackage, TensorSpec
from service.artifacts.reference_shapes import Shape, ShapeError, infer_shapes
from service.domain.identifiers import is_sha256
from service.errors import MalformedModule

NAME_LENGTH_MAX = 512
OFFSET_ALIGNMENT_BYTES = 4
RESERVED_PREFIX = "opt/"


def check_module(module: ModulePackage) -> None:
    """Raises MalformedModule for the first rule broken."""
    _check_names(module)
    _check_tensors(module)
    _check_offsets(module)
    _check_metrics(module)
    _check_digests(module)
    _check_reference(module)


def _check_names(module: ModulePackage) -> None:
    if module.inputs != "none" and module.observations:
        raise refusal("$.observations", "given beside inputs", 'none, or inputs: "none"')
    named = {
        "forward inputs": [spec.name for spec in module.forward_inputs],
        "outputs": [spec.name for spec in module.outputs],
        "parameters": [parameter.name for parameter in module.parameters],
        "auxiliaryWeights": [weight.name for weight in module.auxiliary_weights],
        "metrics": [metric.key for metric in module.metrics],
    }
    for place, names in named.items():
        for name in names:
            if not 1 <= len(name) <= NAME_LENGTH_MAX or "\x00" in name or name.startswith(("__", RESERVED_PREFIX)):
                wanted = f"1 to {NAME_LENGTH_MAX} characters, no NUL, not beginning with __ or {RESERVED_PREFIX}"
                raise refusal(f"$.{place}", f"the name {name[:60]!r}", wanted)
        _refuse_repeats(f"$.{place}", names)
    _refuse_repeats("$.parameters and $.auxiliaryWeights", named["parameters"] + named["auxiliaryWeights"])
    if not module.outputs:
        raise refusal("$.outputs", "none", "at least one")


def _check_tensors(module: ModulePackage) -> None:
    for spec in (*module.forward_inputs, *module.outputs):
        sizes = [size for size in spec.shape[1:] if isinstance(size, int) and size >= 1]
        if not spec.shape or spec.shape[0] != BATCH or len(sizes) != len(spec.shape) - 1:
            raise refusal(f"the shape of {spec.name!r}", list(spec.shape), '["batch", sizes of at least 1 …]')
    for name, shape in module.tensor_shapes().items():
        if any(size < 1 for size in shape):
            raise refusal(f"the shape of {name!r}", list(shape), "sizes of at least 1")


def _check_offsets(module: ModulePackage) -> None:
    """The flat vector: ascending, without gap, every tensor on a multiple of 4 bytes."""
    expected = 0
    for parameter in module.parameters:
        if parameter.offset != expected or parameter.offset % OFFSET_ALIGNMENT_BYTES:
            wanted = f"{expected} (no gap, a multiple of {OFFSET_ALIGNMENT_BYTES})"
            raise refusal(f"the offset of {parameter.name!r}", parameter.offset, wanted)
        expected += parameter.size_bytes
    if module.parameter_bytes != expected:
        raise refusal("$.parameterBytes", module.parameter_bytes, f"{expected}, the sum of the parameters")
    if module.optimizer is not None and module.optimizer.state_bytes < 0:
        raise refusal("$.optimizer.stateBytes", module.optimizer.state_bytes, "0 or more")


def _check_metrics(module: ModulePackage) -> None:
    outputs = [spec.name for spec in module.outputs]
    for metric in module.metrics:
        if metric.output is not None and metric.output not in outputs:
            raise refusal(f"the output of metric {metric.key!r}", repr(metric.output), f"one of {outputs}")


def _check_digests(module: ModulePackage) -> None:
    digests = {"$.wasm": module.wasm, "$.shaderArchive": module.shader_archive}
    digests |= {f"the sha256 of {weight.name!r}": weight.sha256 for weight in module.auxiliary_weights}
    for path, digest in digests.items():
        if digest is not None and not is_sha256(digest):
            raise refusal(path, repr(digest[:80]), "64 lower-case hex digits")


def _check_reference(module: ModulePackage) -> None:
    """The list reads only what is there, its shapes fit, and it makes every output of the module."""
    if not module.reference:
        return
    known: dict[str, Shape] = dict(module.tensor_shapes())
    for spec in module.forward_inputs:
        if spec.name in known:
            raise refusal("$.reference", f"the name {spec.name!r} for an input and a tensor", "different names")
        known[spec.name] = spec.shape
    try:
        shapes = infer_shapes(module.reference, known)
    except ShapeError as error:
        raise MalformedModule(f"$.{error}", path="$.reference", reason=str(error)) from None
    made = {operation.output for operation in module.reference}
    for spec in module.outputs:
        _check_made(spec, spec.name in made, shapes)


def _check_made(spec: TensorSpec, is_made: bool, shapes: dict[str, Shape]) -> None:
    if not is_made:
        raise refusal("$.reference", f"no operation that makes {spec.name!r}", "every output of the module")
    if shapes[spec.name] != spec.shape:
        raise refusal(f"the shape of {spec.name!r} made by $.reference", list(shapes[spec.name]), list(spec.shape))


def _refuse_repeats(path: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise refusal(path, f"{name!r} twice", "each name once")
        seen.add(name)


def refusal(path: str, got: object, wanted: object) -> MalformedModule:
    """The error: which field, what it holds, what it must hold."""
    return MalformedModule(f"{path}: got {got}, wanted {wanted}", path=path)
