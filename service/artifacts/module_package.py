"""Module packages: `module.json` bytes to a checked record and back. Runs nothing and opens no file.

The digest of the bytes as received is the module's identity. Field list: docs/formats.md, "Module package".
"""

from service.artifacts.byte_source import Bytes
from service.artifacts.module_checks import check_module
from service.artifacts.module_manifest import (
    BATCH,
    FORMAT,
    FORMAT_VERSION,
    AuxiliaryWeight,
    Direction,
    Metric,
    ModulePackage,
    OptimizerSpec,
    Parameter,
    ParameterDtype,
    TensorSpec,
)
from service.artifacts.reference_ops import ReferenceOp
from service.artifacts.strict_json import NotStrict, decode_strict
from service.domain.canonical import canonical_json
from service.errors import MalformedModule

__all__ = [
    "BATCH", "FORMAT", "FORMAT_VERSION", "AuxiliaryWeight", "Direction", "Metric", "ModulePackage", "OptimizerSpec",
    "Parameter", "ParameterDtype", "ReferenceOp", "TensorSpec", "read_module", "write_module",
]  # fmt: skip

MODULE_BYTES_MAX = 1024 * 1024


def read_module(data: Bytes) -> ModulePackage:
    """The checked package. Raises MalformedModule, which names the field, what was got and what was wanted."""
    if len(data) > MODULE_BYTES_MAX:
        raise MalformedModule(f"module.json has {len(data)} bytes, wanted at most {MODULE_BYTES_MAX}")
    try:
        module = decode_strict(bytes(data), ModulePackage)
    except NotStrict as refusal:
        raise MalformedModule(f"module.json: {refusal.reason}", offset=refusal.offset) from None
    check_module(module)
    return module


def write_module(module: ModulePackage) -> bytes:
    """Canonical bytes; equal packages give equal bytes. Raises MalformedModule for a package against the rules."""
    check_module(module)
    return canonical_json(module)
