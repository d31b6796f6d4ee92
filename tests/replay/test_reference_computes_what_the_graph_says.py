"""The numpy engine against an evaluator that was written from docs/formats.md alone, on every operation of the list."""

import numpy as np
import pytest

from service.artifacts.onnx_import import import_onnx
from service.demo.package_builder import PackageName, build_package
from service.replay import reference
from service.replay.reference import run_reference
from tests.artifacts.onnx_graphs import GRAPHS, inputs_of
from tests.artifacts.reference_evaluator import evaluate
from tests.replay.package import inputs_of as demo_inputs
from tests.replay.package import weights_of

PACKAGES: list[PackageName] = ["digits-mlp", "digits-cnn"]


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_float64_agrees_with_the_plain_evaluator(name: str) -> None:
    imported = import_onnx(GRAPHS[name])
    module, tensors = imported.package.module, imported.weights
    [spec] = module.forward_inputs
    inputs = {spec.name: inputs_of(GRAPHS[name], 5)}
    wanted = evaluate(module.reference, tensors | inputs)
    found = run_reference(module, tensors, inputs, np.float64).outputs
    for output in module.outputs:
        np.testing.assert_allclose(found[output.name], wanted[output.name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PACKAGES)
def test_float32_stays_float32_and_near(name: PackageName) -> None:
    module = build_package(name).module
    tensors, inputs = weights_of(module), demo_inputs(module)
    narrow = run_reference(module, tensors, inputs, np.float32).outputs["logits"]
    wide = run_reference(module, tensors, inputs, np.float64).outputs["logits"]
    assert (narrow.dtype.str, wide.dtype.str) == ("<f4", "<f8")
    assert np.abs(narrow - wide).max() <= 1e-6 * np.abs(wide).max()


def test_rows_in_parts_give_what_rows_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    module = build_package("digits-cnn").module
    tensors, inputs = weights_of(module), demo_inputs(module, 11)
    at_once = run_reference(module, tensors, inputs, np.float64)
    monkeypatch.setattr(reference, "VALUES_MAX", 3 * 4000)
    in_parts = run_reference(module, tensors, inputs, np.float64)
    assert at_once.rows.parts == 1
    assert in_parts.rows.parts > 1
    np.testing.assert_allclose(in_parts.outputs["logits"], at_once.outputs["logits"], rtol=1e-13)


def test_non_finite_values_are_counted_where_they_first_show() -> None:
    module = build_package().module
    tensors, inputs = weights_of(module), demo_inputs(module, 4)
    tensors["dense1.weight"][0, 0] = np.nan
    found = run_reference(module, tensors, inputs, np.float64)
    assert found.non_finite == {"hidden": 4, "activation": 4, "logits": 40}
