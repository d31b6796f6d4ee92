"""module.json: strict fields, a gap-free parameter table, and a reference list whose shapes fit."""

import json
from typing import Any

import pytest

from service.artifacts.module_package import read_module, write_module
from service.errors import MalformedModule

DIGEST = "5e" * 32


def document(**changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = {
        "format": "retrace-module",
        "formatVersion": 1,
        "name": "tiny",
        "moduleVersion": "1.0.0",
        "inputs": [{"name": "x", "shape": ["batch", 2]}],
        "outputs": [{"name": "y", "shape": ["batch", 3]}],
        "parameters": [{"name": "w", "shape": [2, 3], "offset": 0}, {"name": "b", "shape": [3], "offset": 24}],
        "parameterBytes": 36,
        "metrics": [{"key": "loss", "label": "Loss", "direction": "min", "kind": "mse", "output": "y", "target": "t"}],
        "workSource": "dataset",
        "reference": [{"op": "dense", "input": "x", "weight": "w", "bias": "b", "output": "y"}],
    }
    return value | changes


def refusal_of(value: dict[str, Any] | bytes) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(MalformedModule) as refusal:
        read_module(data)
    assert refusal.value.code == "malformed_module"
    return str(refusal.value)


def test_a_package_is_read_and_written_in_one_form() -> None:
    module = read_module(json.dumps(document()).encode())
    assert module.parameters[1].offset == 24
    assert module.metric("loss") is not None
    assert module.metric("accuracy") is None
    assert read_module(write_module(module)) == module
    assert write_module(read_module(write_module(module))) == write_module(module)


def test_a_package_without_inputs_says_what_it_observes() -> None:
    """Reinforcement learning: the literal "none", no data set, no validation file."""
    value = document(inputs="none", observations=[{"name": "x", "shape": ["batch", 2]}], workSource="experience")
    module = read_module(json.dumps(value).encode())
    assert module.inputs == "none"
    assert [spec.name for spec in module.forward_inputs] == ["x"]

    nothing = read_module(json.dumps(document(inputs="none", reference=[], workSource="experience")).encode())
    assert nothing.forward_inputs == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"author": "me"}, "unknown field `author`"),
        ({"formatVersion": 2}, "$.formatVersion"),
        ({"inputs": "nothing"}, "$.inputs"),
        ({"observations": [{"name": "o", "shape": ["batch", 1]}]}, "$.observations: got given beside inputs"),
        ({"outputs": [], "reference": [], "metrics": []}, "$.outputs: got none"),
        ({"inputs": [{"name": "x", "shape": [2, "batch"]}]}, "the shape of 'x': got [2, 'batch']"),
        ({"inputs": [{"name": "x", "shape": ["batch", 0]}]}, "the shape of 'x'"),
        ({"inputs": [{"name": "x", "shape": ["batch", 2], "dtype": "f64"}]}, "$.inputs[0].dtype"),
        ({"parameterBytes": 40}, "$.parameterBytes: got 40, wanted 36"),
        ({"workSource": "stream"}, "$.workSource"),
        ({"wasm": "x" * 64}, "$.wasm: got 'xxx"),
        ({"shaderArchive": DIGEST.upper()}, "$.shaderArchive"),
        ({"optimizer": {"kind": "adam", "stateBytes": -1}}, "$.optimizer.stateBytes"),
        ({"metrics": [{"key": "a", "label": "A", "direction": "up"}]}, "$.metrics[0].direction"),
        ({"metrics": [{"key": "a", "label": "A", "direction": "min", "output": "z"}]}, "the output of metric 'a'"),
        ({"metrics": [{"key": "a", "label": "A", "direction": "min"}] * 2}, "$.metrics: got 'a' twice"),
        (
            {"auxiliaryWeights": [{"name": "w", "shape": [1], "sha256": DIGEST}]},
            "$.parameters and $.auxiliaryWeights: got 'w' twice",
        ),
        ({"auxiliaryWeights": [{"name": "t", "shape": [1], "sha256": "1"}]}, "the sha256 of 't'"),
        ({"auxiliaryWeights": [{"name": "t", "shape": [1], "sha256": DIGEST, "trainable": True}]}, "trainable"),
    ],
)
def test_a_field_against_the_rules_is_refused_with_its_path(changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal_of(document(**changes))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ([{"name": "w", "shape": [2, 3], "offset": 4}], "the offset of 'w': got 4, wanted 0"),
        ([{"name": "w", "shape": [6], "offset": 0}, {"name": "b", "shape": [3], "offset": 28}], "got 28, wanted 24"),
        ([{"name": "w", "shape": [6], "offset": 0}, {"name": "b", "shape": [3], "offset": 20}], "got 20, wanted 24"),
        ([{"name": "w", "shape": [6], "offset": 0}, {"name": "w", "shape": [3], "offset": 24}], "'w' twice"),
        ([{"name": "w", "shape": [0], "offset": 0}], "the shape of 'w'"),
        ([{"name": "opt/w", "shape": [9], "offset": 0}], "the name 'opt/w'"),
        ([{"name": "w", "shape": [9], "offset": 0, "dtype": "F8"}], "$.parameters[0].dtype"),
        (
            [{"name": "w", "shape": [3], "offset": 0, "dtype": "F16"}, {"name": "b", "shape": [3], "offset": 6}],
            "got 6, wanted 6 (no gap, a multiple of 4)",
        ),
    ],
)
def test_a_parameter_table_with_a_gap_or_an_overlap_is_refused(parameters: list[dict[str, Any]], reason: str) -> None:
    assert reason in refusal_of(document(parameters=parameters, reference=[], parameterBytes=36))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ([{"op": "dense", "input": "x", "weight": "w", "output": "z"}], "no operation that makes 'y'"),
        ([{"op": "dense", "input": "x", "weight": "v", "output": "y"}], "$.reference[0] ('y'): reads 'v', which is no"),
        (
            [{"op": "dense", "input": "x", "weight": "b", "output": "y"}],
            "'b' has shape [3], wanted a tensor with 2 axes",
        ),
        ([{"op": "relu", "input": "x", "output": "y"}], "the shape of 'y' made by $.reference: got ['batch', 2]"),
        ([{"op": "relu", "input": "y", "output": "y"}], "reads 'y', which is no input"),
        ([{"op": "relu", "input": "x", "output": "x"}], "a value of this name is there already"),
        ([{"op": "gemm", "input": "x", "output": "y"}], "Invalid value 'gemm' - at `$.reference[0].op`"),
        (
            [{"op": "softmax", "input": "x", "axis": 0, "output": "y"}],
            "axis 0 of ['batch', 2]: wanted one behind the batch",
        ),
        ([{"op": "conv2d", "input": "x", "weight": "w", "output": "y"}], "is no image of layout NHWC"),
        (
            [{"op": "arithmetic", "kind": "add", "left": "x", "right": "b", "output": "y"}],
            "cannot be broadcast together",
        ),
        ([{"op": "reshape", "input": "x", "shape": [3], "output": "y"}], "cannot become [batch, 3]"),
        (
            [{"op": "transpose", "input": "x", "permutation": [1, 0], "output": "y"}],
            "does not keep the batch as axis 0",
        ),
        ([{"op": "concat", "inputs": [], "output": "y"}], "wanted at least one input"),
    ],
)
def test_a_reference_list_that_does_not_fit_is_refused_by_operation(
    reference: list[dict[str, Any]], reason: str
) -> None:
    assert reason in refusal_of(document(reference=reference))


def test_bytes_that_are_no_strict_json_are_refused() -> None:
    """F23: a repeated key is refused with its path, not resolved in silence."""
    text = json.dumps(document())
    assert "duplicate key at $.name" in refusal_of(
        text.replace('"name": "tiny"', '"name": "a", "name": "tiny"').encode()
    )
    assert "duplicate key at $.parameters[1].offset" in refusal_of(
        text.replace('"offset": 24', '"offset": 24, "\\u006fffset": 24').encode()
    )
    assert "malformed" in refusal_of(b"{'name': 1}")
    assert refusal_of(text.encode("utf-16"))
    assert refusal_of(b"[" * 100_000)
    assert "wanted at most 1048576" in refusal_of(b" " * (2**20 + 1))
