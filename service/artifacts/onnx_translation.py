"""The state of an ONNX import: operations and tensors so far, and the shapes of every value. No operator is known here.

Values keep their ONNX names. Initializers become parameters, other constants become frozen tensors.
"""

import numpy as np

from service.artifacts.onnx_file import Graph, Node
from service.artifacts.reference_ops import ReferenceOp
from service.artifacts.reference_shapes import Shape, ShapeError, output_shape
from service.artifacts.tensor_file import Array
from service.errors import UnsupportedOperation


class Translation:
    """The growing list of operations and tensors. `shapes` holds every value and tensor named so far."""

    def __init__(self, graph: Graph, inputs: dict[str, Shape]) -> None:
        self.opset = graph.opset
        self.operations: list[ReferenceOp] = []
        self.parameters: dict[str, Array] = {}
        self.frozen: dict[str, Array] = {}
        self.shapes: dict[str, Shape] = dict(inputs)
        self.renamed: dict[str, str] = {}
        self._constants: dict[str, Array] = dict(graph.initializers)
        self._trained = frozenset(graph.initializers)

    def add(self, node: Node, operation: ReferenceOp) -> None:
        """Appends an operation. Raises UnsupportedOperation when its inputs do not fit."""
        try:
            self.shapes[operation.output] = output_shape(operation, self.shapes)
        except ShapeError as error:
            raise refused(node, str(error)) from None
        self.operations.append(operation)

    def name(self, node: Node, index: int) -> str:
        """Name of an input, as the file gives it; empty when the input is absent."""
        return node.inputs[index] if index < len(node.inputs) else ""

    def value(self, node: Node, index: int) -> str:
        """Name of a computed input (or graph input) of the node."""
        name = self.name(node, index)
        name = self.renamed.get(name, name)
        if name not in self.shapes or name in self.parameters or name in self.frozen:
            raise refused(node, f"input {index} ({name!r}) is constant or missing, wanted a computed value")
        return name

    def constant(self, node: Node, index: int) -> Array | None:
        """A constant input; None when the optional input is absent."""
        name = self.name(node, index)
        if not name:
            return None
        if name not in self._constants:
            raise refused(node, f"input {index} ({name!r}) is computed, wanted a constant")
        return self._constants[name]

    def set_constant(self, name: str, value: Array) -> None:
        """A tensor made by a Constant node."""
        self._constants[name] = value

    def is_constant(self, name: str) -> bool:
        """Whether the name is a constant tensor of the graph."""
        return name in self._constants

    def tensor(self, node: Node, index: int, values: Array | None = None, suffix: str = "") -> str:
        """Keeps a constant input as a float32 tensor of the package: its name. `values` stand in for the original's."""
        original = self.constant(node, index)
        if original is None or original.dtype.kind != "f":
            raise refused(node, f"input {index} is no float tensor")
        name = node.inputs[index] + suffix
        kept = np.ascontiguousarray(original if values is None else values, dtype="<f4")
        group = self.parameters if node.inputs[index] in self._trained else self.frozen
        if name in group and not np.array_equal(group[name], kept, equal_nan=True):
            raise refused(node, f"uses tensor {name!r} in two different layouts")
        group[name] = kept
        self.shapes[name] = kept.shape
        return name


def refused(node: Node, reason: str) -> UnsupportedOperation:
    """The refusal: operator, node and reason."""
    where = node.name or (node.outputs[0] if node.outputs else "")
    return UnsupportedOperation(
        f"{node.op_type} (node {where!r}) {reason}", operation=node.op_type, node=where, reason=reason
    )
