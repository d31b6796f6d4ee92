"""Seven small ONNX graphs, made with the onnx library: what vision, MLP and policy networks are built of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Tensors = dict[str, np.ndarray[Any, Any]]
node = helper.make_node
RANDOM = np.random.default_rng(3)


def normal(*shape: int, scale: float = 0.3) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = np.asarray(RANDOM.normal(size=shape) * scale, dtype="<f4")
    return values


def positive(*shape: int) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = np.abs(normal(*shape)) + np.float32(0.5)
    return values


def model(
    nodes: Sequence[Any], tensors: Tensors, shape: Sequence[int], outputs: Sequence[str] = ("y",), opset: int = 17
) -> bytes:
    """A model file with one input `x` of shape [N, …]."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(values, name) for name, values in tensors.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return bytes(made.SerializeToString())


def constant(name: str, value: Any) -> Any:
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype="<f4")))


GRAPHS: dict[str, bytes] = {
    "mlp": model(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
            node("Relu", ["h"], ["r"]),
            node("Gemm", ["r", "w2", "b2"], ["y"], alpha=0.5, beta=2.0),
        ],
        {"w1": normal(32, 64), "b1": normal(32), "w2": normal(32, 10), "b2": normal(10)},
        [64],
    ),
    "cnn": model(
        [
            node("Conv", ["x", "k1", "c1"], ["h1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Relu", ["h1"], ["r1"]),
            node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["p1", "k2"], ["h2"], kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2], group=2),
            node("BatchNormalization", ["h2", "scale", "shift", "mean", "variance"], ["n2"]),
            node("LeakyRelu", ["n2"], ["r2"], alpha=0.2),
            node("AveragePool", ["r2"], ["a2"], kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
            node("Flatten", ["a2"], ["f"]),
            node("Gemm", ["f", "w", "b"], ["z"], transB=1),
            node("Softmax", ["z"], ["y"]),
        ],
        {
            "k1": normal(8, 3, 3, 3), "c1": normal(8), "k2": normal(6, 4, 3, 3), "scale": normal(6) + 1,
            "shift": normal(6), "mean": normal(6), "variance": positive(6), "w": normal(5, 54), "b": normal(5),
        },
        [3, 11, 11],
    ),
    "policy": model(
        [
            node("MatMul", ["x", "w1"], ["a"]),
            node("Add", ["a", "b1"], ["b"]),
            node("Tanh", ["b"], ["c"]),
            node("MatMul", ["c", "w2"], ["d"]),
            node("Add", ["d", "b2"], ["logits"]),
            node("Sigmoid", ["c"], ["e"]),
            node("MatMul", ["e", "w3"], ["value"]),
        ],
        {"w1": normal(7, 9), "b1": normal(9), "w2": normal(9, 3), "b2": normal(1, 3), "w3": normal(9, 1)},
        [7],
        outputs=("logits", "value"),
    ),
    "norms": model(
        [
            node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1, epsilon=1e-6),
            node("MatMul", ["n", "w1"], ["h"]),
            node("Gelu", ["h"], ["ge"]),
            node("Gelu", ["h"], ["gt"], approximate="tanh"),
            node("Mul", ["ge", "gt"], ["m"]),
            node("Add", ["m", "x"], ["s"]),
            node("Transpose", ["s"], ["t"], perm=[0, 2, 1]),
            node("Softmax", ["t"], ["u"], axis=1),
            node("Reshape", ["u", "shape"], ["y"]),
        ],
        {"g": normal(12) + 1, "b": normal(12), "w1": normal(12, 12), "shape": np.array([0, -1, 6], dtype="<i8")},
        [5, 12],
        opset=20,
    ),
    "arithmetic": model(
        [
            constant("two", 2.0),
            node("Sub", ["x", "mean"], ["a"]),
            node("Div", ["a", "spread"], ["b"]),
            node("Mul", ["b", "two"], ["c"]),
            node("Clip", ["c", "low", "high"], ["d"]),
            node("GlobalAveragePool", ["d"], ["e"]),
            node("Identity", ["e"], ["e1"]),
            node("Concat", ["e1", "e"], ["e2"], axis=1),
            node("Conv", ["x", "k"], ["f"], kernel_shape=[1, 1]),
            node("Concat", ["d", "f"], ["g"], axis=1),
            node("Mul", ["g", "e2"], ["y"]),
        ],
        {
            "mean": normal(3, 1, 1), "spread": positive(1, 3, 1, 1), "low": np.array(-1.0, dtype="<f4"),
            "high": np.array(1.5, dtype="<f4"), "k": normal(3, 3, 1, 1),
        },
        [3, 6, 5],
    ),
    "dilated": model(
        [
            node("Conv", ["x", "k", "b"], ["c"], dilations=[2, 1], strides=[1, 2], pads=[2, 0, 1, 1]),
            node("MaxPool", ["c"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Relu", ["m"], ["r"]),
            node("Dropout", ["r"], ["s"]),
            node("Flatten", ["s"], ["y"]),
        ],
        {"k": normal(5, 2, 3, 2), "b": normal(5)},
        [2, 9, 8],
    ),
    "wide": model(
        [
            node("Gemm", ["x", "w1", "b1"], ["h1"]),
            node("Relu", ["h1"], ["r1"]),
            node("Gemm", ["r1", "w2", "b2"], ["h2"]),
            node("Relu", ["h2"], ["r2"]),
            node("Gemm", ["r2", "w3", "b3"], ["y"]),
        ],
        {
            "w1": normal(784, 256, scale=0.05), "b1": normal(256), "w2": normal(256, 128, scale=0.08),
            "b2": normal(128), "w3": normal(128, 10), "b3": normal(10),
        },
        [784],
    ),
}  # fmt: skip


def run_by_onnxruntime(data: bytes, x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs that onnxruntime gives."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


def inputs_of(data: bytes, batch: int) -> np.ndarray[Any, Any]:
    """Random inputs for a batch."""
    dimensions = onnx.load_from_string(data).graph.input[0].type.tensor_type.shape.dim[1:]
    shape = [batch, *(dimension.dim_value for dimension in dimensions)]
    return np.random.default_rng(batch).normal(size=shape).astype("<f4")
