"""Verification: everything that the log claims, derived again from what is stored. Trusts no writer, changes nothing.

It uses only what an outsider can fetch: events, tiles, heads, artifacts and the public key. Without a remembered head
(`since`) it cannot tell a log from another one that the key's holder made later: consistency is the feature.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from service.artifacts.archive import Archive
from service.audit.derive import EventSource, RootClaim, derive_log
from service.audit.findings import Report
from service.audit.log_key import last_note, read_verifiers
from service.audit.signed_note import VerifierKey
from service.audit.tree_head import TreeHead, open_head
from service.domain.envelope import StoredEvent
from service.domain.events import ARTIFACT_ARCHIVED, ArtifactArchived
from service.errors import ArtifactNotFound, Corrupt, MalformedNote
from service.settings import Settings
from service.store import EventStore


class ArtifactSource(Protocol):
    """Where the artifacts come from; `verify` hashes again what is kept."""

    def digests(self) -> Iterator[str]: ...
    def verify(self, sha256: str) -> int: ...


def verify_folder(settings: Settings, since: str | None = None) -> Report:
    """Verify a data folder, also beside a running service. `since` is a remembered head: the text of its note.

    Raises SetupError when there is no store, MalformedNote when `since` is not a head of this log.
    """
    keys = read_verifiers(settings.folder, settings.log_origin)
    remembered = None if since is None else open_head(since, keys, settings.log_origin)
    with EventStore.open(settings, read_only=True) as store, tempfile.TemporaryDirectory() as incoming:
        notes = [note for note in (store.newest_head(), last_note(settings.folder)) if note is not None]
        archive = Archive.open(settings, incoming=Path(incoming))
        return verify_store(store, notes, keys, settings.log_origin, since=remembered, artifacts=archive)


def verify_store(
    source: EventSource,
    notes: Sequence[str],
    keys: Sequence[VerifierKey],
    origin: str,
    *,
    since: TreeHead | None = None,
    artifacts: ArtifactSource | None = None,
) -> Report:
    """Verify all events of a source against its tiles, its signed heads and a head that somebody remembers."""
    report = Report(since_size=None if since is None else since.size)
    claims = _claims(notes, keys, origin, report)
    if since is not None:
        claims.append(RootClaim(since, "history_rewritten", "the remembered head"))
    promised: dict[str, int] = {}
    derive_log(source, source.head(), claims, report, lambda event: _note_archived(event, promised))
    if artifacts is not None:
        _check_artifacts(artifacts, promised, report)
    return report


def _note_archived(event: StoredEvent, promised: dict[str, int]) -> None:
    """Remember at which position the record first says that an artifact is kept."""
    if event.event.type != ARTIFACT_ARCHIVED or event.is_erased:
        return
    try:
        sha256 = msgspec.json.decode(event.data, type=ArtifactArchived).sha256
    except msgspec.MsgspecError:
        return  # a changed payload has its own finding
    promised.setdefault(sha256, event.position)


def _claims(notes: Sequence[str], keys: Sequence[VerifierKey], origin: str, report: Report) -> list[RootClaim]:
    claims = []
    for note in dict.fromkeys(notes):
        try:
            head = open_head(note, keys, origin)
        except MalformedNote as error:
            report.add("head_not_signed", f"a kept head is not signed by the log's key: {error.message}")
            continue
        report.head_size = max(head.size, report.head_size or 0)
        claims.append(RootClaim(head, "root_differs", f"the head signed at size {head.size}"))
    return claims


def _check_artifacts(artifacts: ArtifactSource, promised: dict[str, int], report: Report) -> None:
    """Hash every artifact again; then name those that the record says are kept and are not."""
    for sha256 in artifacts.digests():
        promised.pop(sha256, None)
        try:
            artifacts.verify(sha256)
        except Corrupt as error:
            report.add("artifact_differs", error.message, sha256=sha256)
        except ArtifactNotFound:
            report.add("artifact_missing", f"artifact {sha256} went away while it was verified", sha256=sha256)
        report.artifacts += 1
    for sha256, position in promised.items():
        report.add(
            "artifact_missing",
            f"event {position} says that artifact {sha256} is kept, and it is not there",
            position=position, sha256=sha256,
        )  # fmt: skip
