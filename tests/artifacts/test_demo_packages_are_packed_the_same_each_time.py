"""The two shipped packages, and the packing of a folder of sources in general."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from service.artifacts.module_package import read_module
from service.artifacts.package_checks import check_archive_fits, check_wasm_fits
from service.artifacts.packing import check_package, pack_module, write_package
from service.artifacts.shader_archive import read_shader_archive
from service.artifacts.wgsl_kernels import conv_stage_shader, dense_shader
from service.demo.package_builder import SOURCES, PackageName, build_package
from service.domain.canonical import sha256_hex
from service.errors import MalformedModule, MalformedShaderArchive, SetupError

PACKAGES: list[PackageName] = ["digits-mlp", "digits-cnn"]


@pytest.mark.parametrize("name", PACKAGES)
def test_two_packings_give_the_same_digests(name: PackageName) -> None:
    assert build_package(name) == build_package(name)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_digests_in_the_module_are_those_of_its_files(name: PackageName) -> None:
    package = build_package(name)
    module = read_module(package.module_bytes)
    assert module == package.module
    assert package.module_sha256 == sha256_hex(package.module_bytes)
    assert package.shader_archive_bytes is not None
    check_archive_fits(module, read_shader_archive(package.shader_archive_bytes))
    if package.wasm_bytes is not None:
        check_wasm_fits(module, package.wasm_bytes)


def test_the_mlp_comes_with_all_three_engines() -> None:
    package = build_package()
    assert package.module.reference
    assert package.wasm_bytes is not None
    assert package.notes == ()


def test_without_wasmtime_the_package_is_built_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    package = build_package()
    assert package.module.wasm is None
    assert package.wasm_bytes is None
    assert package.notes == ("model.wat was not built: wasmtime is not installed (pip install 'retrace[wasm]')",)
    assert package.shader_archive_bytes is not None


def test_the_shipped_shaders_are_those_of_the_kernel_writer() -> None:
    shipped = {f"{path.parts[-3]}/{path.name}": path.read_text() for path in SOURCES.glob("*/shaders/*.wgsl")}
    assert shipped == {
        "digits-mlp/dense.wgsl": dense_shader(),
        "digits-cnn/dense.wgsl": dense_shader(),
        "digits-cnn/conv_single.wgsl": conv_stage_shader(is_single_channel=True),
        "digits-cnn/conv.wgsl": conv_stage_shader(is_single_channel=False),
    }


def test_a_written_package_passes_its_check(tmp_path: Path) -> None:
    package = build_package()
    names = [path.name for path in write_package(package, tmp_path)]
    assert names == ["module.json", "model.wasm", "digits-mlp.wgsl.zip"]

    found = check_package(tmp_path)
    assert found["module"]["sha256"] == package.module_sha256
    assert found["module"]["engines"] == ["gpu", "wasm", "reference"]
    assert found["shader_archive"]["dispatches"] == 2
    assert found["missing"] == []


def test_the_check_names_what_is_missing(tmp_path: Path) -> None:
    for path in write_package(build_package(), tmp_path):
        if path.name != "module.json":
            path.unlink()
    assert check_package(tmp_path)["missing"] == ["shader_archive", "wasm"]
    with pytest.raises(SetupError, match=r"nowhere.*cannot be read"):
        check_package(tmp_path / "nowhere")


def test_a_foreign_archive_is_refused(tmp_path: Path) -> None:
    """The archive must be the one that module.json names, even when it would fit."""
    other = build_package("digits-cnn").shader_archive_bytes
    assert other is not None
    with pytest.raises(MalformedShaderArchive, match=r"module\.json names"):
        check_archive_fits(build_package().module, read_shader_archive(other))


@pytest.mark.parametrize(
    ("file", "old", "new", "error", "reason"),
    [
        (
            "module.json",
            '"offset": 8192',
            '"offset": 8196',
            MalformedModule,
            "offset of 'dense1.bias': got 8196, wanted 8192",
        ),
        ("module.json", "9640", "9641", MalformedModule, "$.parameterBytes"),
        ("module.json", '"name": "dense1.bias"', '"nom": "dense1.bias"', MalformedModule, "unknown field `nom`"),
        ("manifest.json", "dense2.bias", "dense3.bias", MalformedShaderArchive, "dense3.bias"),
        ("manifest.json", '"crop": ["batch", 10]', '"crop": ["batch", 9]', MalformedShaderArchive, "$.buffers.logits"),
        ("manifest.json", '"shape": [64, 32]', '"shape": [32, 64]', MalformedShaderArchive, "$.buffers.weight1"),
        (
            "shaders/dense.wgsl",
            "read_write",
            "read",
            MalformedShaderArchive,
            "the shader says read, the manifest read_write",
        ),
        ("model.wat", '(export "forward")', '(export "backward")', MalformedModule, "wanted 'forward' as a function"),
        ("model.wat", "(module", "(modul", MalformedModule, "model.wat"),
    ],
)
def test_sources_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, file: str, old: str, new: str, error: type[Exception], reason: str
) -> None:
    shutil.copytree(SOURCES / "digits-mlp", tmp_path / "sources")
    path = tmp_path / "sources" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(error) as refusal:
        pack_module(tmp_path / "sources")
    assert reason in str(refusal.value)


def test_a_module_alone_is_a_package(tmp_path: Path) -> None:
    document = json.loads((SOURCES / "digits-mlp" / "module.json").read_text())
    (tmp_path / "module.json").write_text(json.dumps(document))
    package = pack_module(tmp_path)
    assert (package.shader_archive_bytes, package.wasm_bytes, package.notes) == (None, None, ())
