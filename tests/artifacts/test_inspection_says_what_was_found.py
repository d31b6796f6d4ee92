"""The look at an archived artifact: finiteness, sizes, weights digest, plausibility, and foreign formats by name."""

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.artifacts.byte_source import FileSource
from service.artifacts.checkpoint_format import Checkpoint, Optimizer, write_checkpoint
from service.artifacts.inspection import inspect_artifact
from service.artifacts.module_package import ModulePackage, read_module
from service.artifacts.packing import PackedModule
from service.artifacts.tensor_file import write_tensors
from service.demo.package_builder import build_package

MakeCheckpoint = Callable[..., Checkpoint]
MODULE: dict[str, Any] = {
    "format": "retrace-module",
    "formatVersion": 1,
    "name": "tiny",
    "moduleVersion": "1",
    "inputs": [{"name": "x", "shape": ["batch", 2]}],
    "outputs": [{"name": "y", "shape": ["batch", 3]}],
    "parameters": [
        {"name": "dense.weight", "shape": [2, 3], "offset": 0},
        {"name": "dense.bias", "shape": [3], "offset": 24},
    ],
    "parameterBytes": 36,
    "optimizer": {"kind": "FedAvgM", "stateBytes": 72},
    "metrics": [{"key": "loss", "label": "Loss", "direction": "min", "kind": "mse", "output": "y", "target": "t"}],
    "workSource": "dataset",
}


def module_of(**changes: Any) -> ModulePackage:
    return read_module(json.dumps(MODULE | changes).encode())


def test_both_formats_of_the_same_weights_have_one_weights_digest(checkpoint_of: MakeCheckpoint) -> None:
    found = [inspect_artifact("checkpoint", write_checkpoint(checkpoint_of(n)), module_of()) for n in (1, 2)]
    assert [one["checkpoint_format"] for one in found] == [1, 2]
    assert found[0]["weights_sha256"] == found[1]["weights_sha256"] is not None
    assert [one["well_formed"] for one in found] == [True, True]
    assert [one["sizes"]["status"] for one in found] == ["match", "match"]


def test_the_weights_digest_follows_the_order_of_the_module(checkpoint_of: MakeCheckpoint) -> None:
    data = write_checkpoint(checkpoint_of(1))
    turned = [
        {"name": "dense.bias", "shape": [3], "offset": 0},
        {"name": "dense.weight", "shape": [2, 3], "offset": 12},
    ]
    one = inspect_artifact("checkpoint", data, module_of())["weights_sha256"]
    other = inspect_artifact("checkpoint", data, module_of(parameters=turned))["weights_sha256"]
    assert one != other


def test_without_a_module_the_digest_is_null_with_its_reason(checkpoint_of: MakeCheckpoint) -> None:
    found = inspect_artifact("checkpoint", write_checkpoint(checkpoint_of(2)))
    assert found["weights_sha256"] is None
    assert found["weights_sha256_reason"] == "the module's parameter order is not known"
    assert found["sizes"] == {"status": "not checked", "reason": "the module is not known", "problems": []}
    assert found["optimizer_state"]["status"] == "not checked"


def test_non_finite_values_are_counted_and_left_out_of_the_numbers(checkpoint_of: MakeCheckpoint) -> None:
    """F26."""
    weights = {"w": np.array([3.0, np.nan, np.inf, -np.inf, -4.0, np.nan], dtype="<f4"), "v": np.full(2, np.nan, "<f4")}
    found = inspect_artifact("checkpoint", write_checkpoint(checkpoint_of(1, weights=weights)))
    by_name = {tensor["name"]: tensor for tensor in found["tensors"]}
    assert by_name["w"] == {
        "name": "w", "dtype": "F32", "shape": [6], "size_bytes": 24, "nan": 2, "positive_infinity": 1,
        "negative_infinity": 1, "minimum": -4.0, "maximum": 3.0, "norm": 5.0,
    }  # fmt: skip
    assert (by_name["v"]["minimum"], by_name["v"]["maximum"], by_name["v"]["norm"]) == (None, None, None)
    assert (found["nan"], found["positive_infinity"], found["negative_infinity"]) == (4, 1, 1)
    assert found["non_finite_tensors"] == ["v", "w"]
    json.dumps(found, allow_nan=False)


def test_sizes_are_held_against_the_parameter_table(checkpoint_of: MakeCheckpoint) -> None:
    weights = {"dense.weight": np.zeros((3, 2), "<f4"), "extra": np.zeros(1, "<f4")}
    found = inspect_artifact("checkpoint", write_checkpoint(checkpoint_of(1, weights=weights)), module_of())
    assert found["well_formed"]
    assert found["sizes"]["status"] == "mismatch"
    assert found["sizes"]["problems"] == [
        {"tensor": "dense.weight", "got": "F32 [3, 2]", "wanted": "F32 [2, 3]"},
        {"tensor": "dense.bias", "got": "nothing", "wanted": "F32 [3]"},
        {"tensor": "extra", "got": "a tensor", "wanted": "none of this name"},
    ]
    assert found["weights_sha256"] is None
    assert found["weights_sha256_reason"] == "the weights differ from the parameter table"


@pytest.mark.parametrize(
    ("fields", "declared", "status", "reason"),
    [
        ({}, {"kind": "FedAvgM", "stateBytes": 72}, "match", None),
        ({}, {"kind": "FedAvgM", "stateBytes": 36}, "mismatch", "72 bytes, the module declares 36"),
        ({}, {"kind": "adam", "stateBytes": 72}, "not checked", "the checkpoint's optimizer is 'FedAvgM', the module"),
        ({}, None, "not checked", "the module declares no optimizer"),
        ({"optimizer": None, "optimizer_tensors": {}}, None, "absent", "the checkpoint has no optimizer state"),
        (
            {"optimizer_tensors": {}},
            {"kind": "FedAvgM", "stateBytes": 72},
            "mismatch",
            "0 bytes, the module declares 72",
        ),
    ],
)
def test_the_optimizer_state_is_matched_empty_absent_or_of_another_kind(
    checkpoint_of: MakeCheckpoint, fields: dict[str, Any], declared: Any, status: str, reason: str | None
) -> None:
    """F28: absent, empty and mismatched are three different findings."""
    found = inspect_artifact("checkpoint", write_checkpoint(checkpoint_of(2, **fields)), module_of(optimizer=declared))
    state = found["optimizer_state"]
    assert state["status"] == status
    assert state["reason"] == reason or reason in state["reason"]


def big_endian(values: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(values, dtype=">f4").view("<f4")


def test_big_endian_ones_have_an_implausible_scale(checkpoint_of: MakeCheckpoint) -> None:
    """F25: 1.0 written big-endian reads as 4.6e-41."""
    turned = write_checkpoint(checkpoint_of(1, weights={"w": big_endian([1.0] * 8)}))
    assert inspect_artifact("checkpoint", turned)["implausible_scale"]


def test_big_endian_weights_have_an_implausible_scale(checkpoint_of: MakeCheckpoint) -> None:
    values = np.random.default_rng(7).normal(size=400)
    turned = write_checkpoint(checkpoint_of(1, weights={"w": big_endian(values)}))
    plain = write_checkpoint(checkpoint_of(1, weights={"w": values.astype("<f4")}))
    assert inspect_artifact("checkpoint", turned)["implausible_scale"]
    assert not inspect_artifact("checkpoint", plain)["implausible_scale"]


def test_zeros_and_tiny_moments_are_plausible(checkpoint_of: MakeCheckpoint) -> None:
    zeros = {"w": np.zeros(9, "<f4"), "v": np.ones(1, "<f4")}
    moments = {"v/w": np.full(9, 1e-38, "<f4")}
    found = inspect_artifact(
        "checkpoint",
        write_checkpoint(checkpoint_of(2, weights=zeros, optimizer=Optimizer("FedAdam", 1), optimizer_tensors=moments)),
    )
    assert not found["implausible_scale"]


def test_malformed_bytes_are_a_finding_with_place_and_reason(checkpoint_of: MakeCheckpoint) -> None:
    data = write_checkpoint(checkpoint_of(1))
    found = inspect_artifact("checkpoint", data + b"\0")
    assert found["well_formed"] is False
    assert found["code"] == "malformed_checkpoint"
    assert found["offset"] == len(data)
    assert "the file has 37" in found["reason"]
    assert "tensors" not in found


class Explosive:
    """Runs when it is loaded; the tests fail if it ever is."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return pytest.fail, ("a pickle was loaded",)


def torch_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Explosive()))
        archive.writestr("archive/version", b"3\n")
    return buffer.getvalue()


def object_npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Explosive()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("pickle", pickle.dumps(Explosive(), protocol=2)),
        ("pickle", pickle.dumps(Explosive())),
        ("zip", torch_zip()),
        ("npy", object_npy()),
        ("gzip", gzip.compress(b"weights")),
    ],
)
def test_programs_in_disguise_are_named_and_never_loaded(name: str, data: bytes) -> None:
    """F46."""
    found = inspect_artifact("checkpoint", data)
    assert found["format"] == name
    assert found["well_formed"] is False
    assert found["code"] == "foreign_format"
    assert "never loaded" in found["reason"]


@pytest.mark.parametrize("data", [b"", b"\x00", b"WEEI\x01\x02\x03", bytes(100)])
def test_unknown_bytes_are_an_answer_of_their_own(data: bytes) -> None:
    found = inspect_artifact("checkpoint", data)
    assert (found["format"], found["well_formed"], found["code"]) == ("unknown", None, "unknown_format")
    assert "unknown format" in found["reason"]


def test_a_foreign_safetensors_file_is_a_malformed_checkpoint() -> None:
    found = inspect_artifact("checkpoint", write_tensors({"w": np.zeros(1, "<f4")}))
    assert found["format"] == "retrace-checkpoint"
    assert found["well_formed"] is False
    assert "wanted exactly one: 'retrace'" in found["reason"]


@pytest.fixture(scope="module")
def package() -> PackedModule:
    return build_package()


def test_every_file_of_a_package_is_looked_at(package: PackedModule) -> None:
    assert package.wasm_bytes is not None
    assert package.shader_archive_bytes is not None
    module = inspect_artifact("module", package.module_bytes)
    assert (module["well_formed"], module["name"], module["has_reference"]) == (True, "digits-mlp", True)
    assert [(metric["key"], metric["direction"]) for metric in module["metrics"]] == [
        ("loss", "min"),
        ("accuracy", "max"),
    ]
    assert inspect_artifact("wasm", package.wasm_bytes)["well_formed"]
    archive = inspect_artifact("shader-archive", package.shader_archive_bytes, package.module)
    assert (archive["well_formed"], archive["matches_module"]) == (True, True)


@pytest.mark.parametrize("role", ["module", "wasm", "shader-archive", "update", "validation"])
def test_bytes_that_are_not_what_their_role_says_are_a_finding(role: Any) -> None:
    found = inspect_artifact(role, b"not this")
    assert found["well_formed"] is False
    assert found["code"].startswith("malformed_")


def test_a_wasm_file_with_imports_or_without_exports_is_a_finding(package: PackedModule) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    importing = bytes(wasmtime.wat2wasm('(module (import "env" "clock" (func)))'))
    assert "got 1 imports, wanted none" in inspect_artifact("wasm", importing)["reason"]
    bare = bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1))'))
    assert "wanted 'allocate' as a function" in inspect_artifact("wasm", bare)["reason"]
    assert package.wasm_bytes is not None
    for length in range(8, len(package.wasm_bytes), 7):
        found = inspect_artifact("wasm", package.wasm_bytes[:length])
        assert found["well_formed"] is False


def validation(**tensors: Any) -> bytes:
    return write_tensors({"x": np.zeros((4, 2), "<f4"), "t": np.zeros((4, 3), "<f4")} | tensors)


@pytest.mark.parametrize(
    ("tensors", "status", "reason"),
    [
        ({}, "match", None),
        ({"x": np.zeros((4, 2), "<f8")}, "match", None),
        ({"x": np.zeros((4, 3), "<f4")}, "mismatch", "tensor 'x' is F32 [4, 3], the module wants f32 ['batch', 2]"),
        ({"x": np.zeros((4, 2), "<i4")}, "mismatch", "tensor 'x' is I32 [4, 2]"),
        ({"t": np.zeros((5, 3), "<f4")}, "mismatch", "different numbers of examples: ['4', '5']"),
    ],
)
def test_a_validation_set_is_held_against_its_module(tensors: dict[str, Any], status: str, reason: str | None) -> None:
    found = inspect_artifact("validation", validation(**tensors), module_of())["fits_module"]
    assert found["status"] == status
    assert found["reason"] == reason or reason in found["reason"]


def test_a_missing_target_is_named() -> None:
    found = inspect_artifact("validation", write_tensors({"x": np.zeros((4, 2), "<f4")}), module_of())
    assert found["fits_module"] == {"status": "mismatch", "reason": "no tensor 't'"}


def test_what_is_opaque_is_said_to_be_opaque() -> None:
    found = inspect_artifact("tokenizer", b"anything")
    assert (found["well_formed"], found["reason"]) == (None, "a tokenizer is kept as it is and not looked into")


def test_a_large_checkpoint_is_looked_at_in_little_memory(
    tmp_path: Path, peak_bytes: Callable[[Callable[[], Any]], int]
) -> None:
    """A sparse file stands for a large one; memory does not grow with it."""
    size = 192 * 2**20
    metadata = json.dumps({"checkpoint_format": 1, "job": "j", "module_sha256": "5e" * 32, "round": 1})
    header = json.dumps({
        "__metadata__": {"retrace": metadata},
        "w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]},
    }).encode()  # fmt: skip
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    module = module_of(parameters=[{"name": "w", "shape": [size // 4], "offset": 0}], parameterBytes=size, metrics=[])

    with path.open("rb") as file:
        source = FileSource(file)
        found: dict[str, Any] = {}
        peak = peak_bytes(lambda: found.update(inspect_artifact("checkpoint", source, module)))
    assert found["tensors"][0]["maximum"] == 0.0
    assert len(found["weights_sha256"]) == 64
    assert peak < 32 * 2**20
