"""A module package and its weights from an ONNX file (`retrace module from-onnx`).

The graph's operations become the `reference` list, and WGSL written for these very shapes becomes the archive; there is
no model.wasm. The weights of the file become the tensors of a checkpoint. Metrics are unknown to ONNX: the package has
none until someone adds them.
"""

import math
from typing import Literal

import msgspec

from service.artifacts.checkpoint_format import Checkpoint, write_checkpoint
from service.artifacts.module_package import (
    BATCH,
    FORMAT,
    FORMAT_VERSION,
    AuxiliaryWeight,
    ModulePackage,
    Parameter,
    TensorSpec,
)
from service.artifacts.onnx_file import ELEMENT_NAMES, Graph, ValueSpec, read_onnx
from service.artifacts.onnx_operations import translate_node
from service.artifacts.onnx_translation import Translation
from service.artifacts.packing import PackedModule, assemble_package
from service.artifacts.reference_ops import Concat, ReferenceOp
from service.artifacts.reference_shapes import Shape
from service.artifacts.shader_compiler import compile_module
from service.artifacts.tensor_file import Array
from service.domain.canonical import sha256_hex
from service.errors import MalformedModule

IMPORTED_MODULE_VERSION = "1"


class ImportedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The package, and its tensors by name: parameters first, then frozen ones."""

    package: PackedModule
    weights: dict[str, Array]

    def checkpoint(self, job: str) -> bytes:
        """The file's weights as round 0 of a job, in checkpoint format 1."""
        return write_checkpoint(
            Checkpoint(
                checkpoint_format=1, job=job, round=0, module_sha256=self.package.module_sha256, weights=self.weights
            )
        )


def import_onnx(data: bytes, name: str | None = None) -> ImportedModel:
    """The package behind an ONNX file; `name` stands in for the graph's own.

    Raises MalformedModule for a file that is no ONNX file or a graph without a batch, and UnsupportedOperation, which
    names the operator and the node, for a graph beyond the operators imported.
    """
    graph = read_onnx(data)
    specs = [spec for spec in graph.inputs if spec.name not in graph.initializers]
    inputs = tuple(_input_spec(spec) for spec in specs)
    translation = Translation(graph, {spec.name: spec.shape for spec in inputs})
    for node in graph.nodes:
        translate_node(translation, node)
    operations = _with_output_names(translation, [spec.name for spec in graph.outputs])
    module = _draft(name or graph.name or "imported", inputs, graph, translation, operations)
    return ImportedModel(
        package=assemble_package(module, compile_module(module), None),
        weights=translation.parameters | translation.frozen,
    )


def _input_spec(spec: ValueSpec) -> TensorSpec:
    """A graph input; axis 0 is the batch, whatever size or name the file gives it."""
    element = ELEMENT_NAMES.get(spec.element)
    sizes = [size for size in spec.shape[1:] if isinstance(size, int) and size >= 1]
    if element != "f32" or not spec.shape or len(sizes) != len(spec.shape) - 1:
        raise MalformedModule(
            f"input {spec.name!r} has element type {spec.element} and shape {spec.shape}, "
            "wanted float32 and [batch, fixed sizes …]"
        )
    return TensorSpec(name=spec.name, shape=(BATCH, *sizes))


def _with_output_names(translation: Translation, outputs: list[str]) -> tuple[ReferenceOp, ...]:
    """The operations, with the value behind each graph output bearing the output's name."""
    names: dict[str, str] = {}
    for output in outputs:
        value = translation.renamed.get(output, output)
        if value not in {operation.output for operation in translation.operations} or value in names:
            raise MalformedModule(f"output {output!r} is an input, a constant or another output; wanted an own result")
        names[value] = output
    return tuple(_renamed(operation, names) for operation in translation.operations)


def _renamed(operation: ReferenceOp, names: dict[str, str]) -> ReferenceOp:
    changes: dict[str, object] = {"output": names.get(operation.output, operation.output)}
    if isinstance(operation, Concat):
        changes["inputs"] = tuple(names.get(name, name) for name in operation.inputs)
    else:
        fields = [field for field in ("input", "left", "right") if hasattr(operation, field)]
        changes |= {field: names.get(getattr(operation, field), getattr(operation, field)) for field in fields}
    return msgspec.structs.replace(operation, **changes)


def _draft(
    name: str,
    inputs: tuple[TensorSpec, ...],
    graph: Graph,
    translation: Translation,
    operations: tuple[ReferenceOp, ...],
) -> ModulePackage:
    shapes: dict[str, Shape] = {
        spec.name: translation.shapes[translation.renamed.get(spec.name, spec.name)] for spec in graph.outputs
    }
    parameters = _parameter_table(translation.parameters)
    return ModulePackage(
        format=FORMAT, format_version=FORMAT_VERSION, name=name, module_version=IMPORTED_MODULE_VERSION,
        inputs=inputs,
        outputs=tuple(TensorSpec(name=output, shape=_spec_shape(shape)) for output, shape in shapes.items()),
        parameters=parameters,
        parameter_bytes=sum(parameter.size_bytes for parameter in parameters),
        work_source="dataset",
        auxiliary_weights=tuple(
            AuxiliaryWeight(name=frozen, shape=values.shape, sha256=sha256_hex(values.tobytes()))
            for frozen, values in translation.frozen.items()
        ),
        reference=operations,
    )  # fmt: skip


def _spec_shape(shape: Shape) -> tuple[int | Literal["batch"], ...]:
    return (BATCH, *(int(size) for size in shape[1:]))


def _parameter_table(tensors: dict[str, Array]) -> tuple[Parameter, ...]:
    """The tensors one after another, in the order in which the graph uses them."""
    parameters, offset = [], 0
    for name, values in tensors.items():
        parameters.append(Parameter(name=name, shape=values.shape, offset=offset))
        offset += math.prod(values.shape) * values.dtype.itemsize
    return tuple(parameters)
