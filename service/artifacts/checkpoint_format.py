"""Checkpoint formats 1 and 2: a safetensors file with exactly one metadata key, `retrace`, holding JSON.

Format 1 has the weights only. Format 2 adds the optimizer's tensors as `opt/<name>`, what was summed and in which
order, the parent and the metrics. One metadata key, because several have no stable order in other writers. Identity is
the SHA-256 of the bytes as received, never of a re-serialisation. Byte map: docs/formats.md, "Checkpoint".
"""

from typing import Annotated, Any, Literal

import msgspec

from service.artifacts.byte_source import ByteSource, Readable, as_source
from service.artifacts.strict_json import NotStrict, decode_strict
from service.artifacts.tensor_file import (
    PREFIX_BYTES,
    Array,
    Layout,
    malformed,
    read_layout,
    read_tensor,
    write_tensors,
)
from service.domain.canonical import canonical_json
from service.domain.facts import tag_number, untag_number
from service.errors import MalformedCheckpoint

METADATA_KEY = "retrace"
OPTIMIZER_PREFIX = "opt/"

Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Contribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One participant's update that went into the sum. `examples` is its weight; `update_sha256` its archived bytes."""

    assignment_id: Identifier
    participant_id: Identifier
    examples: Count
    update_sha256: Sha256 | None = None


class Optimizer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The aggregation's optimizer after this round. `settings` are exact decimal strings, so that no digit is lost."""

    kind: str
    step: Count
    settings: dict[str, str] = {}


class Metrics(msgspec.Struct, frozen=True):
    """Scores by metric key; a float may be NaN or infinite, None is unavailable. `validation` None: not validated."""

    training: dict[str, float | None] = {}
    validation: dict[str, float | None] | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint in memory. Weights by tensor name; optimizer tensors by their name without `opt/`.

    Format 1 has nothing below `weights`. `contributions` are in the order in which they were summed, and `formula`
    names the aggregation rule that summed them.
    """

    checkpoint_format: Literal[1, 2]
    job: str
    round: int
    module_sha256: str
    weights: dict[str, Array]
    optimizer: Optimizer | None = None
    optimizer_tensors: dict[str, Array] = {}
    parent_sha256: str | None = None
    contributions: list[Contribution] = []
    formula: str | None = None
    metrics: Metrics | None = None


class MetadataOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="checkpoint_format", tag=1):
    """The JSON of format 1."""

    job: Identifier
    round: Count
    module_sha256: Sha256


class _WrittenMetrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics as written: a non-finite number is its tag."""

    training: dict[str, float | dict[str, str] | None]
    validation: dict[str, float | dict[str, str] | None] | None


class MetadataTwo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="checkpoint_format", tag=2):
    """The JSON of format 2."""

    job: Identifier
    round: Count
    module_sha256: Sha256
    optimizer: Optimizer | None
    parent_sha256: Sha256 | None
    contributions: list[Contribution]
    formula: str | None
    metrics: _WrittenMetrics | None


Metadata = MetadataOne | MetadataTwo


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The file's bytes; equal checkpoints give equal bytes. Raises ValueError for what the format cannot hold."""
    tensors = dict(checkpoint.weights)
    if any(name.startswith(OPTIMIZER_PREFIX) for name in tensors):
        raise ValueError(f"a weight's name must not begin with {OPTIMIZER_PREFIX!r}")
    metadata: Metadata
    if checkpoint.checkpoint_format == 1:
        _refuse_extras(checkpoint)
        metadata = MetadataOne(checkpoint.job, checkpoint.round, checkpoint.module_sha256)
    else:
        tensors |= {OPTIMIZER_PREFIX + name: array for name, array in checkpoint.optimizer_tensors.items()}
        metadata = _metadata_two(checkpoint)
    text = canonical_json(metadata)
    # What is written must be readable: the annotations are checked on the way out by the reader's own decoder.
    msgspec.json.decode(text, type=Metadata)
    return write_tensors(tensors, {METADATA_KEY: text.decode()})


def read_checkpoint(data: Readable) -> Checkpoint:
    """The checkpoint behind the bytes. Raises MalformedCheckpoint, which names byte offset and reason.

    Arrays are read-only views of `data` where it is a buffer; BF16 tensors come widened to float32.
    """
    source = as_source(data)
    layout, metadata = read_structure(source)
    weights = {entry.name: read_tensor(source, layout, entry) for entry in layout.entries}
    optimizer_tensors = {
        name.removeprefix(OPTIMIZER_PREFIX): weights.pop(name)
        for name in list(weights)
        if name.startswith(OPTIMIZER_PREFIX)
    }
    if isinstance(metadata, MetadataOne):
        return Checkpoint(
            checkpoint_format=1, job=metadata.job, round=metadata.round, module_sha256=metadata.module_sha256,
            weights=weights,
        )  # fmt: skip
    return Checkpoint(
        checkpoint_format=2, job=metadata.job, round=metadata.round, module_sha256=metadata.module_sha256,
        weights=weights, optimizer=metadata.optimizer, optimizer_tensors=optimizer_tensors,
        parent_sha256=metadata.parent_sha256, contributions=metadata.contributions, formula=metadata.formula,
        metrics=None if metadata.metrics is None else _read_metrics(metadata.metrics),
    )  # fmt: skip


def read_structure(source: ByteSource) -> tuple[Layout, Metadata]:
    """Layout and metadata without any tensor byte: what a look at a large file needs. Raises MalformedCheckpoint."""
    layout = read_layout(source, MalformedCheckpoint)
    if set(layout.metadata) != {METADATA_KEY}:
        raise malformed(
            MalformedCheckpoint, PREFIX_BYTES,
            f"the metadata keys are {sorted(layout.metadata)[:8]}, wanted exactly one: {METADATA_KEY!r}",
        )  # fmt: skip
    try:
        metadata: Metadata = decode_strict(layout.metadata[METADATA_KEY].encode(), Metadata)  # type: ignore[arg-type]
        _check_metrics(metadata)
    except NotStrict as refusal:
        raise malformed(MalformedCheckpoint, PREFIX_BYTES, f"metadata {METADATA_KEY!r}: {refusal.reason}") from None
    first_optimizer = next((entry for entry in layout.entries if entry.name.startswith(OPTIMIZER_PREFIX)), None)
    if isinstance(metadata, MetadataOne) and first_optimizer is not None:
        raise malformed(
            MalformedCheckpoint, PREFIX_BYTES + first_optimizer.header_offset,
            f"tensor {first_optimizer.name!r} is optimizer state, which format 1 does not have",
        )  # fmt: skip
    return layout, metadata


def _metadata_two(checkpoint: Checkpoint) -> MetadataTwo:
    metrics = checkpoint.metrics
    return MetadataTwo(
        job=checkpoint.job, round=checkpoint.round, module_sha256=checkpoint.module_sha256,
        optimizer=checkpoint.optimizer, parent_sha256=checkpoint.parent_sha256,
        contributions=checkpoint.contributions, formula=checkpoint.formula,
        metrics=None if metrics is None else _write_metrics(metrics),
    )  # fmt: skip


def _refuse_extras(checkpoint: Checkpoint) -> None:
    extras = [
        field
        for field in ("optimizer", "optimizer_tensors", "parent_sha256", "contributions", "formula", "metrics")
        if getattr(checkpoint, field)
    ]
    if extras:
        raise ValueError(f"checkpoint format 1 holds weights only; drop {', '.join(extras)} or write format 2")


def _write_metrics(metrics: Metrics) -> _WrittenMetrics:
    validation = metrics.validation
    return _WrittenMetrics(_tagged(metrics.training), None if validation is None else _tagged(validation))


def _tagged(scores: dict[str, float | None]) -> dict[str, Any]:
    return {key: None if number is None else tag_number(number) for key, number in scores.items()}


def _read_metrics(written: _WrittenMetrics) -> Metrics:
    validation = written.validation
    return Metrics(_untagged(written.training), None if validation is None else _untagged(validation))


def _untagged(scores: dict[str, Any]) -> dict[str, float | None]:
    return {key: None if value is None else untag_number(value) for key, value in scores.items()}


def _check_metrics(metadata: Metadata) -> None:
    """A tag must be one of the three non-finite numbers: an unreadable tag would otherwise turn into `unavailable`."""
    if isinstance(metadata, MetadataOne) or metadata.metrics is None:
        return
    for part in (metadata.metrics.training, metadata.metrics.validation or {}):
        for key, value in part.items():
            if value is not None and untag_number(value) is None:
                raise NotStrict(f"metrics: {key!r} is {value!r}, wanted a number, null or a non-finite tag")
