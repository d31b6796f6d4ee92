"""The event types that Retrace knows, and the shape of `data` for each of them (docs/events.md lists them).

Type names are independent of class names. Unknown types are stored, counted and passed by. Readers ignore unknown
fields, so a new field never breaks an old reader; whatever cannot follow that rule goes through an upcaster.
"""

from typing import Any, Literal

import msgspec

STATE_REPORTED = "state.reported"
COMMAND_CALLED = "command.called"
COMMAND_RETURNED = "command.returned"
API_CONNECTED = "api.connected"
API_UNAVAILABLE = "api.unavailable"
API_REPLACED = "api.replaced"
RECORDER_STARTED = "recorder.started"
RECORDER_STOPPED = "recorder.stopped"
RECORDER_THINNED = "recorder.thinned"
SAVED_JOBS_REPORTED = "saved-jobs.reported"
STORAGE_REPORTED = "storage.reported"
DEMOS_REPORTED = "demos.reported"
ARTIFACT_ARCHIVED = "artifact.archived"
ARTIFACT_REFUSED = "artifact.refused"
REPLAY_REQUESTED = "replay.requested"
REPLAY_JUDGED = "replay.judged"
PAYLOAD_ERASED = "payload.erased"
KEY_ROTATED = "key.rotated"

RECORDER_TYPES = frozenset({
    STATE_REPORTED, COMMAND_CALLED, COMMAND_RETURNED, API_CONNECTED, API_UNAVAILABLE, API_REPLACED,
    RECORDER_STARTED, RECORDER_STOPPED, RECORDER_THINNED, SAVED_JOBS_REPORTED, STORAGE_REPORTED, DEMOS_REPORTED,
})  # fmt: skip
"""Types that a recorder may send."""

SERVICE_TYPES = frozenset({
    ARTIFACT_ARCHIVED, ARTIFACT_REFUSED, REPLAY_REQUESTED, REPLAY_JUDGED, PAYLOAD_ERASED, KEY_ROTATED,
})  # fmt: skip
"""Types that only the service makes: the gate refuses them from outside."""

KNOWN_TYPES = RECORDER_TYPES | SERVICE_TYPES

ArtifactRole = Literal[
    "module", "wasm", "checkpoint", "shader-archive", "validation", "tokenizer", "dataset-manifest", "update"
]
Verdict = Literal["reproduced", "deviates", "cannot-run", "refused"]


class CommandCalled(msgspec.Struct):
    """`command.called`: a command of the page API is about to run. Secrets were removed from `arguments`."""

    name: str
    arguments: Any = None


class CommandReturned(msgspec.Struct):
    """`command.returned`: its outcome. `causation_id` of the envelope names the called event.

    Returned says nothing about training: a returned `start` does not mean that training runs or has finished.
    """

    name: str
    outcome: Literal["ok", "error"]
    duration_ms: float | None = None
    error_code: str | None = None
    error_message: str | None = None
    result: Any = None


class RecorderStarted(msgspec.Struct):
    """`recorder.started`: the first event of a recorder run (seq 1)."""

    kind: str
    recorder_version: str
    user_agent: str | None = None


class RecorderThinned(msgspec.Struct):
    """`recorder.thinned`: snapshots that were dropped before they were sent, as the recorder's memory was full."""

    count: int


class ArtifactArchived(msgspec.Struct):
    """`artifact.archived`: bytes are kept under their digest. `inspection` is what the format's reader found."""

    role: ArtifactRole
    sha256: str
    size_bytes: int
    round: int | None = None
    media_format: str | None = None
    inspection: dict[str, Any] | None = None


class ArtifactRefused(msgspec.Struct):
    """`artifact.refused`: bytes were not kept, and why."""

    sha256: str
    code: str
    message: str


class ErasedPayload(msgspec.Struct):
    """One payload that was taken out; `redacted_sha256` is the digest of the document in its place, if any."""

    position: int
    redacted_sha256: str | None = None


class PayloadErased(msgspec.Struct):
    """`payload.erased`: payloads were taken out on request or by age. Their envelopes, leaves and proofs stay."""

    payloads: list[ErasedPayload]
    reason: str


class ReplayRequested(msgspec.Struct):
    """`replay.requested`: someone asked for a checkpoint to be run again."""

    replay_id: str
    checkpoint_sha256: str
    engine: str
    round: int | None = None


class ReplayJudged(msgspec.Struct):
    """`replay.judged`: what came out.

    `result` holds engine, adapter, versions, digests, errors and metrics (docs/replay.md).
    """

    replay_id: str
    checkpoint_sha256: str
    verdict: Verdict
    result: dict[str, Any]
    round: int | None = None
