"""The demo's two packages, packed from their sources in `package/`: an MLP and a small CNN for 8x8 digits."""

from pathlib import Path
from typing import Literal

from service.artifacts.packing import PackedModule, pack_module

SOURCES = Path(__file__).parent / "package"
PackageName = Literal["digits-mlp", "digits-cnn"]
DemoPackage = PackedModule


def build_package(name: PackageName = "digits-mlp") -> DemoPackage:
    """The package's files and digests; the same on every run. Without wasmtime it has no model.wasm, and says so."""
    return pack_module(SOURCES / name)
