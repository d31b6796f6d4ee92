"""Shipped and imported WGSL archives on an adapter, against float64 and against onnxruntime, at several batches."""

from typing import Any

import numpy as np
import pytest

from service.artifacts.onnx_import import import_onnx
from service.artifacts.packing import PackedModule, assemble_package
from service.artifacts.shader_archive import read_shader_archive
from service.artifacts.shader_compiler import compile_module
from service.demo.package_builder import PackageName, build_package
from tests.artifacts.onnx_graphs import GRAPHS, inputs_of, run_by_onnxruntime
from tests.artifacts.reference_evaluator import evaluate
from tests.gpu.archive_host import device, run_archive

pytestmark = pytest.mark.needs_adapter
Array = np.ndarray[Any, Any]
BATCHES = [1, 7, 8, 65]
PACKAGES: list[PackageName] = ["digits-mlp", "digits-cnn"]


def tensors_of(package: PackedModule) -> dict[str, Array]:
    random = np.random.default_rng(11)
    return {
        parameter.name: np.asarray(random.normal(size=parameter.shape) * 0.3, dtype="<f4")
        for parameter in package.module.parameters
    }


def images(package: PackedModule, batch: int) -> dict[str, Array]:
    spec = package.module.forward_inputs[0]
    shape = [batch, *(int(size) for size in spec.shape[1:])]
    return {spec.name: np.asarray(np.random.default_rng(batch).uniform(0, 16, size=shape), dtype="<f4")}


def assert_close(got: Array, wanted: Array, tolerance: float) -> None:
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", PACKAGES)
def test_a_shipped_archive_agrees_with_its_reference(name: PackageName, batch: int) -> None:
    device()
    package = build_package(name)
    assert package.shader_archive_bytes is not None
    archive = read_shader_archive(package.shader_archive_bytes)
    tensors, inputs = tensors_of(package), images(package, batch)
    wanted = evaluate(package.module.reference, tensors | inputs)["logits"]
    got = run_archive(archive, tensors, inputs, batch)["logits"]
    assert_close(got, wanted, archive.manifest.tolerance.max_relative)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_compiler_makes_as_good_an_archive_from_the_reference_alone(name: PackageName) -> None:
    device()
    draft = build_package(name)
    package = assemble_package(draft.module, compile_module(draft.module), None)
    assert package.shader_archive_bytes is not None
    archive = read_shader_archive(package.shader_archive_bytes)
    tensors, inputs = tensors_of(package), images(package, 9)
    wanted = evaluate(package.module.reference, tensors | inputs)["logits"]
    assert_close(run_archive(archive, tensors, inputs, 9)["logits"], wanted, archive.manifest.tolerance.max_relative)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", GRAPHS)
def test_an_imported_archive_agrees_with_onnxruntime(name: str, batch: int) -> None:
    device()
    imported = import_onnx(GRAPHS[name])
    assert imported.package.shader_archive_bytes is not None
    archive = read_shader_archive(imported.package.shader_archive_bytes)
    x = inputs_of(GRAPHS[name], batch)
    got = run_archive(archive, imported.weights, {"x": x}, batch)
    for output, wanted in run_by_onnxruntime(GRAPHS[name], x).items():
        assert_close(got[output], wanted, archive.manifest.tolerance.max_relative)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_nan_in_one_pixel_reaches_every_logit_of_its_image(name: PackageName) -> None:
    device()
    package = build_package(name)
    assert package.shader_archive_bytes is not None
    inputs = images(package, 3)
    inputs["image"].reshape(3, 64)[1, 27] = np.nan
    got = run_archive(read_shader_archive(package.shader_archive_bytes), tensors_of(package), inputs, 3)["logits"]
    assert np.isnan(got).all(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_nan_in_the_weights_stays_visible(name: PackageName) -> None:
    """A rectifier must not turn NaN into 0: the checkpoint that is broken has to look broken."""
    device()
    package = build_package(name)
    assert package.shader_archive_bytes is not None
    tensors = tensors_of(package)
    first = package.module.parameters[1].name
    tensors[first] = np.full_like(tensors[first], np.nan)
    got = run_archive(read_shader_archive(package.shader_archive_bytes), tensors, images(package, 3), 3)["logits"]
    assert np.isnan(got).all()
