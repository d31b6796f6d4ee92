"""What the ad-hoc Playground takes: nested lists, .npy and tensor files, converted only where nothing is lost."""

import io
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from service.artifacts.module_package import ModulePackage, TensorSpec
from service.artifacts.tensor_file import read_tensors, write_tensors
from service.errors import InvalidField, InvalidJson, MalformedTensorFile, UnsupportedContentType
from service.queries.responses import encode
from service.replay.ad_hoc import JSON, NPY, TENSOR_FILE, outputs_npy, read_inputs


def module(*inputs: TensorSpec) -> ModulePackage:
    return ModulePackage("retrace-module", 1, "m", "1", inputs, (), (), 0, "dataset")


ONE = module(TensorSpec("x", ("batch", 2)))
WHOLE = module(TensorSpec("x", ("batch", 2), "i32"))


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


@given(arrays(np.float32, (3, 2)))
def test_json_npy_and_tensor_file_say_the_same(x: np.ndarray) -> None:
    wanted = write_tensors({"x": x})
    assert read_inputs(npy(x), NPY, ONE) == wanted
    assert read_inputs(wanted, TENSOR_FILE, ONE) == wanted
    by_json = read_tensors(read_inputs(encode({"inputs": {"x": x.tolist()}}), f"{JSON}; charset=utf-8", ONE))
    np.testing.assert_array_equal(by_json["x"], x)


def test_npy_in_other_orders_and_dtypes_is_understood() -> None:
    x = np.arange(6, dtype=">f8").reshape(3, 2)
    for array in (x, np.asfortranarray(x), x.astype("i2")):
        np.testing.assert_array_equal(read_tensors(read_inputs(npy(array), NPY, ONE))["x"], x)


@pytest.mark.parametrize(
    ("inputs", "word"),
    [
        ({"x": [[1, None]]}, "None is no number"),
        ({"x": [[1, "2"]]}, "'2' is no number"),
        ({"x": [[1, 2], [3]]}, "no regular array"),
        ({"y": [[1, 2]]}, "no input 'y'; it has ['x']"),
    ],
)
def test_lists_that_are_no_array_of_numbers_are_refused(inputs: Any, word: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        read_inputs(msgspec.json.encode({"inputs": inputs}), JSON, ONE)
    assert word in refusal.value.message


def test_whole_numbers_stay_whole() -> None:
    kept = read_tensors(read_inputs(b'{"inputs":{"x":[[1,-2]]}}', JSON, WHOLE))["x"]
    assert (kept.dtype.str, kept.tolist()) == ("<i4", [[1, -2]])
    for text in (b'{"inputs":{"x":[[1.5,2]]}}', b'{"inputs":{"x":[[3000000000,2]]}}'):
        with pytest.raises(InvalidField):
            read_inputs(text, JSON, WHOLE)


def test_a_header_that_promises_more_than_there_is_allocates_nothing() -> None:
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**20)})
    for body in (huge.getvalue(), b"\x93NUMPY", b"", npy(np.zeros((3, 2)))[:-1]):
        with pytest.raises(InvalidField):
            read_inputs(body, NPY, ONE)


def test_objects_are_never_loaded() -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    with pytest.raises(InvalidField):
        read_inputs(header.getvalue() + b"\x80\x04.", NPY, ONE)


def test_other_bodies_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedContentType):
        read_inputs(b"", "text/csv", ONE)
    with pytest.raises(InvalidJson):
        read_inputs(b"{", JSON, ONE)
    with pytest.raises(InvalidField):
        read_inputs(b"[]", JSON, ONE)
    with pytest.raises(MalformedTensorFile):
        read_inputs(b"short", TENSOR_FILE, ONE)
    with pytest.raises(InvalidField):
        read_inputs(npy(np.zeros((1, 2))), NPY, module(TensorSpec("a", ("batch", 2)), TensorSpec("b", ("batch", 2))))


def test_one_output_leaves_as_npy_and_several_do_not() -> None:
    one = {"y": np.arange(3, dtype="<f4")}
    np.testing.assert_array_equal(np.load(io.BytesIO(outputs_npy(write_tensors(one))), allow_pickle=False), one["y"])
    with pytest.raises(InvalidField):
        outputs_npy(write_tensors({**one, "z": one["y"]}))
