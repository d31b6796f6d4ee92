"""What is found when a checkpoint is looked at: form, sizes against its module, finiteness, weights digest. JSON-ready.

*The bytes are what was declared* is the archive's verdict; *well-formed* is this one. A malformed file gets a reason
and no numbers. Works on ranges of a ByteSource, so a checkpoint of gigabytes needs a few megabytes of memory.
"""

from typing import Any

import msgspec

from service.artifacts.byte_source import ByteSource, Readable, as_source
from service.artifacts.checkpoint_format import OPTIMIZER_PREFIX, Metadata, MetadataOne, read_structure
from service.artifacts.module_package import ModulePackage, Parameter
from service.artifacts.safetensors_header import TensorEntry
from service.artifacts.tensor_file import Layout
from service.artifacts.tensor_statistics import TensorStatistics, has_implausible_scale, measure, tensors_sha256
from service.errors import MalformedCheckpoint

TENSORS_LISTED_MAX = 256
PROBLEMS_LISTED_MAX = 32


def inspect_checkpoint(data: Readable, module: ModulePackage | None) -> dict[str, Any]:
    """The inspection. Never raises for bad bytes: `well_formed` is False then, with `reason` and byte `offset`.

    Without a module the weights digest and the size checks are null or "not checked", with the reason.
    """
    source = as_source(data)
    try:
        layout, metadata = read_structure(source)
    except MalformedCheckpoint as error:
        return {
            "well_formed": False, "reason": error.message, "code": error.code, "offset": error.details["offset"],
            "checkpoint_format": None,
        }  # fmt: skip
    statistics = [measure(source, layout, entry) for entry in layout.entries]
    weights = [tensor for tensor in statistics if not tensor.name.startswith(OPTIMIZER_PREFIX)]
    return {
        "well_formed": True,
        "reason": None,
        "checkpoint_format": 1 if isinstance(metadata, MetadataOne) else 2,
        "job": metadata.job,
        "round": metadata.round,
        "module_sha256": metadata.module_sha256,
        "origin": _origin(metadata),
        **tensor_documents(statistics),
        "implausible_scale": has_implausible_scale(weights),
        "sizes": _sizes(layout, module),
        "optimizer_state": _optimizer_state(layout, metadata, module),
        **_weights_digest(source, layout, module),
    }


def _origin(metadata: Metadata) -> dict[str, Any] | None:
    """What the file itself says of where it comes from; None for format 1, which says nothing."""
    if isinstance(metadata, MetadataOne):
        return None
    return {
        "parent_sha256": metadata.parent_sha256,
        "formula": metadata.formula,
        "contributions": msgspec.to_builtins(metadata.contributions),
    }


def tensor_documents(statistics: list[TensorStatistics]) -> dict[str, Any]:
    """All tensors (the first 256 listed), the sums of their non-finite values and the names of those that have any."""
    return {
        "tensor_count": len(statistics),
        "tensors": [tensor.as_document() for tensor in statistics[:TENSORS_LISTED_MAX]],
        "nan": sum(tensor.nan for tensor in statistics),
        "positive_infinity": sum(tensor.positive_infinity for tensor in statistics),
        "negative_infinity": sum(tensor.negative_infinity for tensor in statistics),
        "non_finite_tensors": [tensor.name for tensor in statistics if tensor.non_finite][:TENSORS_LISTED_MAX],
    }


def _sizes(layout: Layout, module: ModulePackage | None) -> dict[str, Any]:
    """The weights against the module's parameter table: which are missing, unknown or of another shape or type."""
    if module is None:
        return {"status": "not checked", "reason": "the module is not known", "problems": []}
    found = {entry.name: entry for entry in layout.entries if not entry.name.startswith(OPTIMIZER_PREFIX)}
    problems = [
        problem for parameter in module.parameters if (problem := _problem(parameter, found.get(parameter.name)))
    ]
    auxiliary = {weight.name for weight in module.auxiliary_weights}
    unknown = found.keys() - {parameter.name for parameter in module.parameters} - auxiliary
    problems += [{"tensor": name, "got": "a tensor", "wanted": "none of this name"} for name in sorted(unknown)]
    return {
        "status": "mismatch" if problems else "match",
        "reason": f"{len(problems)} tensors differ from the parameter table" if problems else None,
        "problems": problems[:PROBLEMS_LISTED_MAX],
    }


def _problem(parameter: Parameter, entry: TensorEntry | None) -> dict[str, str] | None:
    wanted = f"{parameter.dtype} {list(parameter.shape)}"
    got = "nothing" if entry is None else f"{entry.dtype} {list(entry.shape)}"
    return None if got == wanted else {"tensor": parameter.name, "got": got, "wanted": wanted}


def _optimizer_state(layout: Layout, metadata: Metadata, module: ModulePackage | None) -> dict[str, Any]:
    """Bytes of the optimizer's tensors, and whether they are what the module declares for the same kind."""
    size = sum(entry.end - entry.begin for entry in layout.entries if entry.name.startswith(OPTIMIZER_PREFIX))
    optimizer = None if isinstance(metadata, MetadataOne) else metadata.optimizer
    document: dict[str, Any] = {"kind": None if optimizer is None else optimizer.kind, "size_bytes": size}
    declared = None if module is None else module.optimizer
    if optimizer is None:
        return document | {"status": "absent", "reason": "the checkpoint has no optimizer state", "wanted_bytes": None}
    if declared is None:
        reason = "the module is not known" if module is None else "the module declares no optimizer"
        return document | {"status": "not checked", "reason": reason, "wanted_bytes": None}
    if declared.kind != optimizer.kind:
        reason = f"the checkpoint's optimizer is {optimizer.kind!r}, the module declares {declared.kind!r}"
        return document | {"status": "not checked", "reason": reason, "wanted_bytes": None}
    is_match = size == declared.state_bytes
    return document | {
        "status": "match" if is_match else "mismatch",
        "reason": None if is_match else f"{size} bytes, the module declares {declared.state_bytes}",
        "wanted_bytes": declared.state_bytes,
    }


def _weights_digest(source: ByteSource, layout: Layout, module: ModulePackage | None) -> dict[str, Any]:
    """`weights_sha256` over the parameters in module order: equal for both formats of the same weights."""
    if module is None:
        return {"weights_sha256": None, "weights_sha256_reason": "the module's parameter order is not known"}
    found = {entry.name: entry for entry in layout.entries}
    ordered = [(parameter, found.get(parameter.name)) for parameter in module.parameters]
    entries = [entry for parameter, entry in ordered if entry is not None and _problem(parameter, entry) is None]
    if len(entries) != len(ordered):
        return {"weights_sha256": None, "weights_sha256_reason": "the weights differ from the parameter table"}
    return {"weights_sha256": tensors_sha256(source, layout, entries), "weights_sha256_reason": None}
