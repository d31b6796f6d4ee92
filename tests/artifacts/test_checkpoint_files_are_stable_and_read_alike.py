"""Both checkpoint formats: golden bytes that are never written anew, round trips, and an independent reader."""

import hashlib
import io
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from service.artifacts.checkpoint_format import (
    Checkpoint,
    Contribution,
    Metrics,
    Optimizer,
    read_checkpoint,
    write_checkpoint,
)
from service.artifacts.tensor_file import read_tensors, write_tensors

GOLDEN = Path(__file__).parent.parent / "golden"
GOLDEN_SHA256 = {
    1: "f057ad4eacebeac358f5c21c45f689586396e481d37bf754da7686a8c72b12cf",
    2: "0329a00ac62bf3c14d9ea4456e211322a9e99b9d90f01c7182f985c5f35092a3",
}
MakeCheckpoint = Callable[..., Checkpoint]


def golden(checkpoint_format: int) -> bytes:
    return (GOLDEN / f"checkpoint-format-{checkpoint_format}.safetensors").read_bytes()


@pytest.mark.parametrize("checkpoint_format", [1, 2])
def test_golden_files_are_what_they_were(checkpoint_format: int) -> None:
    assert hashlib.sha256(golden(checkpoint_format)).hexdigest() == GOLDEN_SHA256[checkpoint_format]


@pytest.mark.parametrize("checkpoint_format", [1, 2])
def test_the_writer_still_writes_the_golden_bytes(checkpoint_format: int, checkpoint_of: MakeCheckpoint) -> None:
    assert write_checkpoint(checkpoint_of(checkpoint_format)) == golden(checkpoint_format)
    assert write_checkpoint(read_checkpoint(golden(checkpoint_format))) == golden(checkpoint_format)


def test_format_one_holds_weights_and_where_they_belong() -> None:
    checkpoint = read_checkpoint(golden(1))
    assert (checkpoint.checkpoint_format, checkpoint.job, checkpoint.round) == (1, "job-1", 3)
    assert checkpoint.module_sha256 == "5e" * 32
    assert {name: array.tolist() for name, array in checkpoint.weights.items()} == {
        "dense.bias": [0.25, -1.0, 3.5],
        "dense.weight": [[-0.5, -0.25, 0.0], [0.25, 0.5, 0.75]],
    }
    assert (checkpoint.optimizer, checkpoint.contributions, checkpoint.metrics) == (None, [], None)


def test_format_two_holds_all_that_made_the_round() -> None:
    checkpoint = read_checkpoint(golden(2))
    assert checkpoint.optimizer == Optimizer("FedAvgM", 3, {"momentum": "0.7", "learning_rate": "1.0"})
    assert checkpoint.optimizer_tensors["velocity/dense.bias"].tolist() == [0.125, -0.5, 1.75]
    assert checkpoint.contributions == [Contribution("a-7", "p1", 120, "cd" * 32), Contribution("a-8", "p2", 80)]
    assert (checkpoint.parent_sha256, checkpoint.formula) == ("ab" * 32, "fedavgm-velocity")
    assert checkpoint.metrics is not None
    assert checkpoint.metrics.training == {"loss": 0.5, "accuracy": 0.875}


def test_a_nan_metric_an_unavailable_one_and_a_missing_one_stay_different() -> None:
    metrics = read_checkpoint(golden(2)).metrics
    assert metrics is not None
    assert metrics.validation is not None
    assert np.isnan(metrics.validation["loss"] or 0.0)
    assert metrics.validation["accuracy"] is None
    assert "perplexity" not in metrics.validation


@pytest.mark.parametrize("checkpoint_format", [1, 2])
def test_the_safetensors_library_reads_the_same_tensors(checkpoint_format: int) -> None:
    theirs = safetensors.numpy.load(golden(checkpoint_format))
    ours = read_tensors(golden(checkpoint_format))
    assert theirs.keys() == ours.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(array, ours[name], strict=True)


def test_tensors_written_by_the_safetensors_library_are_read_here() -> None:
    tensors = {"w": np.arange(4, dtype="<f4"), "h": np.arange(3, dtype="<f2"), "i": np.array([[7]], dtype="<i8")}
    ours = read_tensors(safetensors.numpy.save(tensors, {"a": "1", "b": "2"}))
    for name, array in tensors.items():
        np.testing.assert_array_equal(array, ours[name], strict=True)


def test_bytes_files_and_maps_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(golden(2))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        read = [write_checkpoint(read_checkpoint(data)) for data in (golden(2), file, io.BytesIO(golden(2)))]
        read.append(write_checkpoint(read_checkpoint(bytes(mapped))))
    assert set(read) == {golden(2)}


def test_arrays_are_little_endian_and_read_only() -> None:
    """F25: an explicit dtype, never the machine's own."""
    array = read_checkpoint(golden(1)).weights["dense.bias"]
    assert array.dtype == np.dtype("<f4")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


def test_big_endian_arrays_are_written_in_little_endian_order() -> None:
    assert write_tensors({"w": np.array([1.5, -2.0], dtype=">f4")}) == write_tensors({
        "w": np.array([1.5, -2.0], dtype="<f4")
    })  # fmt: skip


def test_bfloat16_is_widened_exactly() -> None:
    """1.0 is 0x3f80, -2.5 is 0xc020, infinity 0x7f80 in bfloat16: the upper halves of the float32 numbers."""
    header = b'{"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    data = len(header).to_bytes(8, "little") + header + bytes.fromhex("803f20c0807f")
    array = read_tensors(data)["w"]
    assert array.dtype == np.dtype("<f4")
    assert array.tolist() == [1.0, -2.5, float("inf")]


def test_format_one_refuses_what_only_format_two_can_hold(checkpoint_of: MakeCheckpoint) -> None:
    with pytest.raises(ValueError, match="drop formula or write format 2"):
        write_checkpoint(checkpoint_of(1, formula="fedavg"))


def test_the_writer_refuses_what_the_reader_would(checkpoint_of: MakeCheckpoint) -> None:
    with pytest.raises(ValueError, match="must not begin with 'opt/'"):
        write_checkpoint(checkpoint_of(1, weights={"opt/w": np.zeros(1, dtype="<f4")}))
    with pytest.raises(ValueError, match=r"module_sha256"):
        write_checkpoint(checkpoint_of(1, module_sha256="5E" * 32))
    with pytest.raises(ValueError, match="dtype complex64"):
        write_checkpoint(checkpoint_of(1, weights={"w": np.zeros(1, dtype=np.complex64)}))


names = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: not name.startswith(("opt/", "__"))
)
dtypes = st.sampled_from(["<f4", "<f8", "<f2", "<i4", "<i8", "u1", "?"])
arrays = dtypes.flatmap(
    lambda dtype: npst.arrays(np.dtype(dtype), npst.array_shapes(min_dims=0, max_dims=3, max_side=4))
)
scores = st.dictionaries(st.text(max_size=8), st.none() | st.floats(), max_size=3)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
checkpoints = st.builds(
    Checkpoint,
    checkpoint_format=st.just(2),
    job=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    round=st.integers(0, 2**53 - 1),
    module_sha256=digests,
    weights=st.dictionaries(names, arrays, max_size=4),
    optimizer=st.none() | st.builds(Optimizer, st.text(max_size=8), st.integers(0, 100), st.just({"eta": "0.1"})),
    optimizer_tensors=st.dictionaries(names, arrays, max_size=2),
    parent_sha256=st.none() | digests,
    contributions=st.lists(
        st.builds(
            Contribution, st.just("a-1"), st.text(min_size=1, max_size=9), st.integers(0, 9), st.none() | digests
        ),
        max_size=3,
    ),
    formula=st.none() | st.text(max_size=9),
    metrics=st.none() | st.builds(Metrics, scores, st.none() | scores),
)


@given(checkpoints)
def test_every_checkpoint_comes_back_and_is_written_alike(checkpoint: Checkpoint) -> None:
    data = write_checkpoint(checkpoint)
    read = read_checkpoint(data)

    assert write_checkpoint(read) == data
    for field in ("job", "round", "module_sha256", "optimizer", "parent_sha256", "contributions", "formula"):
        assert getattr(read, field) == getattr(checkpoint, field)
    assert flat(read) == flat(checkpoint)
    assert safetensors.numpy.load(data).keys() == read_tensors(data).keys()


def flat(checkpoint: Checkpoint) -> dict[str, Any]:
    """Tensors as comparable bytes, NaN payloads included."""
    tensors = checkpoint.weights | {f"opt/{name}": array for name, array in checkpoint.optimizer_tensors.items()}
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in tensors.items()}


def test_the_order_of_the_tensors_given_does_not_matter(checkpoint_of: MakeCheckpoint) -> None:
    checkpoint = checkpoint_of(1)
    turned = dict(reversed(checkpoint.weights.items()))
    assert write_checkpoint(checkpoint_of(1, weights=turned)) == write_checkpoint(checkpoint)
