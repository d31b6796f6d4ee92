"""What follows the arrival of an artifact: a look at its bytes, and the event that says that they are kept, or why not.

Bytes of one digest, role and round are archived once per job: their event has an id made of exactly that, so the second
arrival finds the first one's receipt.
"""

from typing import Any, NamedTuple, get_args

from service.artifacts.archive import Archive, Kept
from service.artifacts.inspection import inspect_artifact
from service.artifacts.module_package import MODULE_BYTES_MAX, ModulePackage, read_module
from service.domain.envelope import NewEvent, Receipt, StoredEvent
from service.domain.events import (
    ARTIFACT_ARCHIVED,
    ARTIFACT_REFUSED,
    ArtifactArchived,
    ArtifactRefused,
    ArtifactRole,
)
from service.domain.identifiers import artifact_stream, check_id, job_stream
from service.errors import EventIdConflict, MalformedModule, RetraceError, UnknownParameter
from service.ingest.translate import ServiceRun, named_event_id
from service.store import EventStore

ROLES: tuple[str, ...] = get_args(ArtifactRole)


class Label(NamedTuple):
    """What a sender says about bytes: their role, the job they belong to, the round they are of."""

    role: ArtifactRole
    job: str | None
    round: int | None

    def stream(self, sha256: str) -> str:
        """The job's stream, or the artifact's own."""
        return artifact_stream(sha256) if self.job is None else job_stream(self.job)


def read_label(role: str, job: str | None, round_number: int | None) -> Label:
    """A checked label. Raises UnknownParameter for a role that there is not or a negative round."""
    if role not in ROLES:
        raise UnknownParameter(
            f"role: got {role[:80]!r}, wanted one of {', '.join(ROLES)}", parameter="role", allowed=list(ROLES)
        )
    if round_number is not None and not 0 <= round_number < 2**53:
        raise UnknownParameter(f"round: got {round_number}, wanted 0 to 2^53-1", parameter="round")
    if job is not None:
        check_id(job, "job")
    return Label(role, job, round_number)  # type: ignore[arg-type]  # a member of ROLES is an ArtifactRole


class Archiving:
    """Turns kept bytes into events. May be used from any thread; its methods block."""

    def __init__(self, archive: Archive, store: EventStore, run: ServiceRun) -> None:
        self.archive = archive
        self._store = store
        self._run = run

    def record(self, kept: Kept, label: Label) -> Receipt:
        """Record that the bytes are kept under this label; the first record's receipt when it was said before."""
        event_id = named_event_id(ARTIFACT_ARCHIVED, label.stream(kept.sha256), label.role, label.round, kept.sha256)
        known = self._store.find(event_id)
        if known is not None:
            return _receipt(known)
        event = self._archived_event(event_id, kept, label)
        try:
            return self._store.append([event]).result()[0]
        except EventIdConflict:
            known = self._store.find(event_id)  # another arrival of the same bytes was a moment faster
            if known is None:
                raise
            return _receipt(known)

    def record_refusal(self, sha256: str, label: Label, refusal: RetraceError) -> None:
        """Record that bytes declared as `sha256` were not kept, and why."""
        data = ArtifactRefused(sha256, refusal.code, refusal.message)
        self._store.append([self._run.event(ARTIFACT_REFUSED, label.stream(sha256), data)]).result()

    def _archived_event(self, event_id: str, kept: Kept, label: Label) -> NewEvent:
        inspection = self._inspect(kept.sha256, label.role)
        media_format = inspection.get("format")
        data = ArtifactArchived(
            label.role, kept.sha256, kept.size_bytes, label.round,
            media_format if isinstance(media_format, str) else None, inspection,
        )  # fmt: skip
        return self._run.event(ARTIFACT_ARCHIVED, label.stream(kept.sha256), data, event_id=event_id)

    def _inspect(self, sha256: str, role: ArtifactRole) -> dict[str, Any]:
        """What the format's reader finds; a checkpoint that names a module we keep is held against it."""
        inspection = inspect_artifact(role, self.archive.source(sha256))
        module = self._module(inspection.get("module_sha256"))
        return inspection if module is None else inspect_artifact(role, self.archive.source(sha256), module)

    def _module(self, sha256: object) -> ModulePackage | None:
        size_bytes = self.archive.head(sha256) if isinstance(sha256, str) else None
        if size_bytes is None or size_bytes > MODULE_BYTES_MAX:
            return None
        try:
            return read_module(self.archive.read(str(sha256)))
        except MalformedModule:
            return None  # its own artifact.archived event says what is wrong with it


def _receipt(stored: StoredEvent) -> Receipt:
    return Receipt(
        stored.event.id, stored.position, stored.stream_position, stored.recorded_at_us, stored.data_sha256,
        is_redelivery=True,
    )  # fmt: skip
