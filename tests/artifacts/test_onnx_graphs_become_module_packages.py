"""`retrace module from-onnx`: the imported package computes what onnxruntime computes; the rest is refused by name."""

import contextlib
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from service.artifacts.checkpoint_format import read_checkpoint
from service.artifacts.inspection import inspect_artifact
from service.artifacts.onnx_file import read_onnx
from service.artifacts.onnx_import import import_onnx
from service.artifacts.shader_archive import read_shader_archive
from service.errors import MalformedModule, MalformedShaderArchive, UnsupportedOperation
from tests.artifacts.onnx_graphs import GRAPHS, constant, inputs_of, model, node, normal, run_by_onnxruntime
from tests.artifacts.reference_evaluator import evaluate


@pytest.mark.parametrize("name", GRAPHS)
def test_the_reference_list_computes_what_onnxruntime_computes(name: str) -> None:
    imported = import_onnx(GRAPHS[name])
    x = inputs_of(GRAPHS[name], 5)
    values = evaluate(imported.package.module.reference, imported.weights | {"x": x})
    for output, wanted in run_by_onnxruntime(GRAPHS[name], x).items():
        assert values[output].shape == wanted.shape
        assert np.abs(values[output] - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", GRAPHS)
def test_package_archive_and_weights_fit_each_other(name: str) -> None:
    imported = import_onnx(GRAPHS[name], "a-name")
    package = imported.package
    assert package.module.name == "a-name"
    assert package.shader_archive_bytes is not None
    assert read_shader_archive(package.shader_archive_bytes).sha256 == package.module.shader_archive
    found = inspect_artifact("checkpoint", imported.checkpoint("job-1"), package.module)
    assert (found["sizes"]["status"], found["round"]) == ("match", 0)
    assert found["weights_sha256"] is not None


def test_the_same_file_gives_the_same_package() -> None:
    assert import_onnx(GRAPHS["cnn"]).package == import_onnx(GRAPHS["cnn"]).package


def test_weights_are_parameters_and_constants_are_frozen() -> None:
    module = import_onnx(GRAPHS["arithmetic"]).package.module
    assert [parameter.name for parameter in module.parameters] == ["mean", "spread", "k"]
    assert [weight.name for weight in module.auxiliary_weights] == ["two"]


def test_a_rectifier_is_computed_with_the_layer_before_it() -> None:
    package = import_onnx(GRAPHS["wide"]).package
    assert package.shader_archive_bytes is not None
    manifest = read_shader_archive(package.shader_archive_bytes).manifest
    assert [dispatch.constants["RELU"] for dispatch in manifest.dispatches] == [1, 1, 0]


def test_the_checkpoint_holds_the_weights_of_the_file() -> None:
    data = import_onnx(GRAPHS["mlp"]).checkpoint("job-1")
    tensors = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load_from_string(GRAPHS["mlp"]).graph.initializer
    }
    weights = read_checkpoint(data).weights
    np.testing.assert_array_equal(weights["w1.transposed"], tensors["w1"].T)
    np.testing.assert_array_equal(weights["w2.scaled"], tensors["w2"] * np.float32(0.5))
    np.testing.assert_array_equal(weights["b2.spread"], tensors["b2"] * np.float32(2.0))


WEIGHT = {"w": normal(4, 4)}
IMAGE = {"k": normal(2, 2, 3, 3)}


@pytest.mark.parametrize(
    ("nodes", "tensors", "shape", "operation", "reason"),
    [
        ([node("Erf", ["x"], ["y"], name="e1")], {}, [4], "Erf", "(node 'e1') is not imported; imported are Add,"),
        ([node("Relu", ["x"], ["y"], domain="com.example")], {}, [4], "Relu", "is not imported"),
        ([node("MatMul", ["x", "x"], ["y"])], {}, [4, 4], "MatMul", "input 1 ('x') is computed, wanted a constant"),
        (
            [node("MatMul", ["w", "x"], ["y"])],
            WEIGHT,
            [4],
            "MatMul",
            "input 0 ('w') is constant or missing, wanted a computed value",
        ),
        ([node("Gemm", ["x", "w"], ["y"], transA=1)], WEIGHT, [4], "Gemm", "has transA = 1, wanted one of [0]"),
        ([node("MatMul", ["x", "w"], ["y"])], WEIGHT, [5], "MatMul", "does not meet weight [4, 4]"),
        ([node("Conv", ["x", "w"], ["y"])], WEIGHT, [4, 4], "Conv", "wanted a weight with 4 axes"),
        ([node("Conv", ["x", "k"], ["y"], kernel_shape=[3, 3])], IMAGE, [3, 8, 8], "Conv", "3 channels do not meet"),
        ([node("Conv", ["x", "k"], ["y"], auto_pad="SAME")], IMAGE, [2, 8, 8], "Conv", "has auto_pad = 'SAME'"),
        (
            [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)],
            {},
            [1, 5, 5],
            "MaxPool",
            "ceil_mode",
        ),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[3])], {}, [1, 5], "MaxPool", "wanted two sizes"),
        ([node("Softmax", ["x"], ["y"], axis=0)], {}, [4], "Softmax", "wanted one behind the batch"),
        ([node("Transpose", ["x"], ["y"])], {}, [4], "Transpose", "does not keep the batch as axis 0"),
        ([node("Concat", ["x", "x"], ["y"], axis=0)], {}, [4], "Concat", "wanted one behind the batch"),
        ([node("Flatten", ["x"], ["y"], axis=2)], {}, [4, 4], "Flatten", "has axis = 2"),
        ([node("Reshape", ["x", "s"], ["y"])], {"s": np.array([8, 2])}, [4, 4], "Reshape", "moves the batch"),
        ([node("Add", ["x", "i"], ["y"])], {"i": np.array([1], dtype="<i4")}, [4], "Add", "is no float tensor"),
        ([node("Dropout", ["x"], ["y", "mask"])], {}, [4], "Dropout", "has 2 outputs"),
    ],
)
def test_what_is_not_imported_is_refused_by_name(
    nodes: list[Any], tensors: dict[str, Any], shape: list[int], operation: str, reason: str
) -> None:
    with pytest.raises(UnsupportedOperation) as refusal:
        import_onnx(model(nodes, tensors, shape))
    assert refusal.value.code == "unsupported_operation"
    assert refusal.value.details["operation"] == operation
    assert str(refusal.value).startswith(operation)
    assert reason in str(refusal.value)


def test_the_softmax_of_old_operator_sets_is_refused_where_it_flattens() -> None:
    nodes = [node("Softmax", ["x"], ["y"], axis=1)]
    with pytest.raises(UnsupportedOperation, match="of operator set 11 flattens its input"):
        import_onnx(model(nodes, {}, [3, 4], opset=11))
    assert import_onnx(model(nodes, {}, [4], opset=11)).package.module.reference


@pytest.mark.parametrize(
    ("nodes", "shape", "reason"),
    [
        ([node("Relu", ["x"], ["z"])], [4], "output 'y' is an input, a constant or another output"),
        ([node("Identity", ["x"], ["y"])], [4], "output 'y' is an input, a constant or another output"),
        ([node("Relu", ["x"], ["y"])], ["length"], "wanted float32 and [batch, fixed sizes …]"),
    ],
)
def test_a_graph_without_a_fixed_shape_or_a_result_is_refused(nodes: list[Any], shape: list[Any], reason: str) -> None:
    with pytest.raises(MalformedModule) as refusal:
        import_onnx(model(nodes, {}, shape))
    assert reason in str(refusal.value)


def test_loops_beyond_the_limit_of_an_archive_are_refused() -> None:
    """A dense layer over 60,001 inputs would loop longer than llvmpipe lets it."""
    data = model([node("MatMul", ["x", "w"], ["y"])], {"w": np.zeros((60_001, 1), dtype="<f4")}, [60_001])
    with pytest.raises(MalformedShaderArchive, match="60001, wanted at most 60000"):
        import_onnx(data)


def test_constants_are_read_from_raw_bytes_and_from_typed_lists() -> None:
    listed = onnx.helper.make_node(
        "Constant", [], ["c"], value=onnx.helper.make_tensor("c", onnx.TensorProto.FLOAT, [2], [1.5, -2.0])
    )
    graph = read_onnx(model([listed, constant("d", [3.0]), node("Add", ["x", "c"], ["y"])], {}, [2]))
    values = [np.asarray(made.attributes["value"]).tolist() for made in graph.nodes[:2]]
    assert values == [[1.5, -2.0], [3.0]]


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"not a model", GRAPHS["mlp"][:-100], GRAPHS["mlp"] + b"\x7f"])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedModule, match="no ONNX file"):
        import_onnx(data)


@given(st.integers(0, len(GRAPHS["policy"]) - 1), st.integers(0, 255))
def test_any_changed_byte_is_imported_or_refused(position: int, value: int) -> None:
    changed = GRAPHS["policy"][:position] + bytes([value]) + GRAPHS["policy"][position + 1 :]
    with contextlib.suppress(MalformedModule, UnsupportedOperation, MalformedShaderArchive):
        import_onnx(changed)
