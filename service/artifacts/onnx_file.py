"""ONNX files (`onnx.proto`, ModelProto) as plain records: nodes, constant tensors, inputs and outputs. Nothing runs.

Only what an import needs is read. Tensors kept in files beside the model, sparse tensors and functions are refused.
Raises MalformedModule for bytes that are no ONNX file.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from service.artifacts.protobuf_wire import (
    WireError,
    fields,
    float_value,
    packed_floats,
    packed_integers,
    raw,
    signed,
    text,
)
from service.artifacts.tensor_file import Array
from service.errors import MalformedModule

ONNX_BYTES_MAX = 2 * 1024 * 1024 * 1024
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"), 6: np.dtype("<i4"), 7: np.dtype("<i8"), 11: np.dtype("<f8"), 12: np.dtype("<u4"),
}  # fmt: skip
"""TensorProto.DataType of the tensors that are read."""
ELEMENT_NAMES = {1: "f32", 6: "i32", 12: "u32"}
_EXTERNAL = 1

Attribute = int | float | str | Array | list[int] | list[float]


class Node(NamedTuple):
    """One operation of the graph; an empty input name is an absent optional input."""

    op_type: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Attribute]


class ValueSpec(NamedTuple):
    """A graph input or output. A dimension is a size, a name, or None when nothing is said."""

    name: str
    element: int
    shape: list[int | str | None]


class Graph(NamedTuple):
    """The main graph; `opset` is the version of the default operator set."""

    name: str
    opset: int
    nodes: list[Node]
    initializers: dict[str, Array]
    inputs: list[ValueSpec]
    outputs: list[ValueSpec]


def read_onnx(data: bytes) -> Graph:
    """The graph of an ONNX file. Raises MalformedModule."""
    try:
        return _read_model(memoryview(data))
    except WireError as error:
        raise MalformedModule(f"no ONNX file: {error}") from None


def _read_model(data: memoryview) -> Graph:
    opset, graph = 0, None
    for number, _, value in fields(data):
        if number == 7:
            graph = raw(value)
        elif number == 8:
            domain, operator_set = _read_opset(raw(value))
            opset = operator_set if domain in ("", "ai.onnx") else opset
        elif number == 25:
            raise MalformedModule("the ONNX file has functions, which are not imported; export it without them")
    if graph is None or opset == 0:
        raise MalformedModule("no ONNX file: wanted a graph and the version of the default operator set")
    return _read_graph(graph, opset)


def _read_opset(data: memoryview) -> tuple[str, int]:
    domain, operator_set = "", 0
    for number, _, value in fields(data):
        if number == 1:
            domain = text(value)
        elif number == 2:
            operator_set = signed(value)
    return domain, operator_set


def _read_graph(data: memoryview, opset: int) -> Graph:
    graph = Graph("", opset, [], {}, [], [])
    for number, _, value in fields(data):
        if number == 1:
            graph.nodes.append(_read_node(raw(value)))
        elif number == 2:
            graph = graph._replace(name=text(value))
        elif number == 5:
            name, tensor = _read_tensor(raw(value))
            graph.initializers[name] = tensor
        elif number == 11:
            graph.inputs.append(_read_value(raw(value)))
        elif number == 12:
            graph.outputs.append(_read_value(raw(value)))
        elif number == 15:
            raise MalformedModule("the ONNX file has sparse tensors, which are not imported")
    return graph


def _read_node(data: memoryview) -> Node:
    node = Node("", "", "", [], [], {})
    for number, _, value in fields(data):
        if number == 1:
            node.inputs.append(text(value))
        elif number == 2:
            node.outputs.append(text(value))
        elif number == 3:
            node = node._replace(name=text(value))
        elif number == 4:
            node = node._replace(op_type=text(value))
        elif number == 5:
            name, attribute = _read_attribute(raw(value))
            node.attributes[name] = attribute
        elif number == 7:
            node = node._replace(domain=text(value))
    return node


def _read_attribute(data: memoryview) -> tuple[str, Attribute]:
    """Name and value; a list without values is an empty list of integers."""
    name, found, integers, floats = "", None, [], []  # type: str, Attribute | None, list[int], list[float]
    for number, kind, value in fields(data):
        if number == 1:
            name = text(value)
        elif number == 2:
            found = float_value(value)
        elif number == 3:
            found = signed(value)
        elif number == 4:
            found = text(value)
        elif number == 5:
            found = _read_tensor(raw(value))[1]
        elif number == 7:
            floats += packed_floats(value)
        elif number == 8:
            integers += packed_integers(kind, value)
    if found is None:
        found = floats or integers
    return name, found


def _read_tensor(data: memoryview) -> tuple[str, Array]:
    """Name and values of a TensorProto, from raw bytes or from its typed list."""
    name, element, content = "", 0, None  # type: str, int, memoryview | None
    shape: list[int] = []
    listed: list[Any] = []
    for number, kind, value in fields(data):
        if number == 1:
            shape += packed_integers(kind, value)
        elif number == 2:
            element = signed(value)
        elif number == 4:
            listed += packed_floats(value)
        elif number in (5, 7):
            listed += packed_integers(kind, value)
        elif number == 8:
            name = text(value)
        elif number == 9:
            content = raw(value)
        elif number == 14 and signed(value) == _EXTERNAL:
            raise MalformedModule(f"tensor {name!r} lies in a file beside the model; save the model as one file")
    dtype = _DTYPES.get(element)
    if dtype is None:
        raise MalformedModule(f"tensor {name!r} has element type {element}, wanted float32, float64 or an integer")
    flat = np.array(listed, dtype=dtype) if content is None else _from_bytes(name, content, dtype)
    if flat.size != math.prod(shape) or any(size < 0 for size in shape):
        raise MalformedModule(f"tensor {name!r} has {flat.size} values, its shape {shape} wants {math.prod(shape)}")
    return name, flat.reshape(shape)


def _from_bytes(name: str, content: memoryview, dtype: np.dtype[Any]) -> Array:
    if len(content) % dtype.itemsize:
        raise MalformedModule(f"tensor {name!r} has {len(content)} bytes, no multiple of {dtype.itemsize}")
    return np.frombuffer(content, dtype=dtype)


def _read_value(data: memoryview) -> ValueSpec:
    """ValueInfoProto: name, and of its tensor type the element and the dimensions."""
    spec = ValueSpec("", 0, [])
    for number, _, value in fields(data):
        if number == 1:
            spec = spec._replace(name=text(value))
        elif number == 2:
            for kind, _, inner in fields(raw(value)):
                if kind == 1:
                    spec = _read_tensor_type(spec, raw(inner))
    return spec


def _read_tensor_type(spec: ValueSpec, data: memoryview) -> ValueSpec:
    for number, _, value in fields(data):
        if number == 1:
            spec = spec._replace(element=signed(value))
        elif number == 2:
            shape = [_read_dimension(raw(dimension)) for kind, _, dimension in fields(raw(value)) if kind == 1]
            spec = spec._replace(shape=shape)
    return spec


def _read_dimension(data: memoryview) -> int | str | None:
    for number, _, value in fields(data):
        if number == 1:
            return signed(value)
        if number == 2:
            return text(value)
    return None
