"""`verify_folder` on a folder in which one thing was changed: it says what, and where."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from service.artifacts.archive import Archive
from service.audit.findings import Report
from service.audit.log import TransparencyLog
from service.audit.log_key import LogKey
from service.audit.verify import verify_folder
from service.errors import MalformedNote, SetupError
from service.settings import Settings
from service.store import Erasure, EventStore
from tests.event_builders import new_event, new_events, state_document

ORIGIN = Settings().log_origin
COUNT = 600


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A folder with 600 events (patches among them), a signed head and an artifact."""
    settings = Settings(data=str(tmp_path / "data"))
    with EventStore.open(settings) as store:
        for first in range(0, COUNT, 100):
            batch = [new_event(data=state_document(first + at), stream=f"job-{at % 3}") for at in range(100)]
            store.append(batch).result(timeout=60)
        TransparencyLog(store, LogKey.open(settings.folder, ORIGIN), ORIGIN).signed_head()
    Archive.open(settings).put(b"weights")
    return settings


def change(settings: Settings, statement: str) -> None:
    connection = sqlite3.connect(settings.folder / "events.sqlite")
    with connection:
        assert connection.execute(statement).rowcount
    connection.close()


def places(report: Report) -> set[tuple[str, int | None]]:
    return {(finding.code, finding.position) for finding in report.findings}


def test_untouched_folder_is_sound(settings: Settings) -> None:
    report = verify_folder(settings, (settings.folder / "log-head").read_text())
    assert report.is_sound
    assert (report.events, report.size, report.head_size, report.since_size) == (COUNT, COUNT, COUNT, COUNT)
    assert (report.streams, report.artifacts) == (3, 1)


def test_folder_is_verified_beside_a_running_writer(settings: Settings) -> None:
    with EventStore.open(settings) as store:
        store.append(new_events(10)).result(timeout=60)
        report = verify_folder(settings)
    assert report.is_sound
    assert report.size == COUNT + 10


FLIP = "UPDATE events SET {0} = CAST(substr({0}, 1, length({0}) - 1) || x'00' AS BLOB) WHERE position = 300"


@pytest.mark.parametrize("column", ["payload", "data_sha256"])
def test_changed_byte_of_an_event_is_named_with_its_position(settings: Settings, column: str) -> None:
    change(settings, FLIP.format(column))
    report = verify_folder(settings)
    assert {position for code, position in places(report) if code != "root_differs"} - {None} == {300}


@pytest.mark.parametrize(
    "assignment",
    ["seq = seq + 1", "schema_version = 9", "observed_at_us = observed_at_us + 1",
     "recorded_at_us = recorded_at_us + 1", "payload = 'text'", "event_id = 'text'", "seq = 'x'",
     "correlation_id = 'x'", "causation_id = 'x'", "stream_id = 99", "event_id = zeroblob(16)",
     "salt = x'00'", "data_size = data_size + 1", "stream_position = 1000", "source_id = 77", "encoding = 0",
     "keyframe = 1", "payload = x''"],
)  # fmt: skip
def test_changed_column_of_an_event_is_named_with_its_position(settings: Settings, assignment: str) -> None:
    change(settings, f"UPDATE events SET {assignment} WHERE position = 300")
    assert 300 in {position for _, position in places(verify_folder(settings))}


def test_deleted_event_is_named(settings: Settings) -> None:
    change(settings, "DELETE FROM events WHERE position = 300")
    report = verify_folder(settings)
    assert ("event_missing", 300) in places(report)
    assert report.events < COUNT


def test_changed_keyframe_is_named(settings: Settings) -> None:
    change(settings, "UPDATE events SET payload = x'00' WHERE position = 1")
    assert ("event_unreadable", 1) in places(verify_folder(settings))


def test_payload_of_another_event_is_named(settings: Settings) -> None:
    change(
        settings,
        "UPDATE events SET (payload, keyframe) = (SELECT payload, keyframe FROM events WHERE position = 453) "
        "WHERE position = 450",
    )
    assert 450 in {position for _, position in places(verify_folder(settings))}


def test_changed_leaf_in_a_tile_is_named_with_its_position(settings: Settings) -> None:
    change(
        settings,
        "UPDATE tiles SET hashes = CAST(substr(hashes, 1, 320) || x'00' || substr(hashes, 322) AS BLOB) "
        "WHERE level = 0 AND tile_index = 1",
    )
    assert places(verify_folder(settings)) == {("leaf_differs", 256 + 11)}


def test_changed_upper_tile_is_named(settings: Settings) -> None:
    change(settings, "UPDATE tiles SET hashes = zeroblob(length(hashes)) WHERE level = 1")
    report = verify_folder(settings)
    assert [finding.code for finding in report.findings] == ["tile_differs"]
    assert "1/0" in report.findings[0].sentence


def test_cut_off_end_is_named(settings: Settings) -> None:
    change(settings, f"DELETE FROM events WHERE position = {COUNT}")
    assert ("truncated", COUNT) in places(verify_folder(settings))


def test_changed_artifact_is_named_with_its_digest(settings: Settings) -> None:
    digest = next(iter(Archive.open(settings).digests()))
    path = next((settings.folder / "artifacts").rglob(f"{digest}"))
    path.chmod(0o600)
    path.write_bytes(b"Weights")
    report = verify_folder(settings)
    assert [(finding.code, finding.sha256) for finding in report.findings] == [("artifact_differs", digest)]


def test_rewritten_history_with_the_key_is_caught_only_by_a_remembered_head(settings: Settings, tmp_path: Path) -> None:
    """Whoever holds the key can make another log that is sound in itself: consistency is the feature."""
    remembered = (settings.folder / "log-head").read_text()
    forged = Settings(data=str(tmp_path / "forged"))
    forged.folder.mkdir()
    key_file = forged.folder / "log-key"
    key_file.write_bytes((settings.folder / "log-key").read_bytes())
    key_file.chmod(0o600)
    with EventStore.open(forged) as store:
        store.append(new_events(COUNT)).result(timeout=60)
        TransparencyLog(store, LogKey.open(forged.folder, ORIGIN), ORIGIN).signed_head()
    assert verify_folder(forged).is_sound
    assert "history_rewritten" in {code for code, _ in places(verify_folder(forged, remembered))}


def test_remembered_head_of_another_key_is_refused(settings: Settings, tmp_path: Path) -> None:
    other = Settings(data=str(tmp_path / "other"))
    with EventStore.open(other) as store:
        note = TransparencyLog(store, LogKey.open(other.folder, ORIGIN), ORIGIN).signed_head()
    with pytest.raises(MalformedNote):
        verify_folder(settings, note)


def test_folder_without_a_store_is_a_set_up_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="--data"):
        verify_folder(Settings(data=str(tmp_path)))
    assert not (tmp_path / "events.sqlite").exists()


def erase(settings: Settings, erasure: Erasure) -> None:
    with EventStore.open(settings) as store:
        store.erase(
            [erasure], "asked", lambda facts: new_event(event_type="payload.erased", data=msgspec.json.encode(facts))
        )


@pytest.mark.parametrize("redacted", [None, b'{"participants":[]}'], ids=["erased", "redacted"])
def test_erased_payload_leaves_every_proof_intact(settings: Settings, redacted: bytes | None) -> None:
    remembered = (settings.folder / "log-head").read_text()
    erase(settings, Erasure(300, redacted))
    report = verify_folder(settings, remembered)
    assert report.is_sound
    assert report.erased == 1


def test_payload_that_went_away_without_an_order_is_named(settings: Settings) -> None:
    change(settings, "UPDATE events SET payload = NULL, keyframe = NULL, encoding = 0 WHERE position = 300")
    assert places(verify_folder(settings)) == {("erased_without_event", 300)}


def test_redacted_document_that_was_changed_is_named(settings: Settings) -> None:
    erase(settings, Erasure(300, b'{"participants":[]}'))
    change(settings, "UPDATE events SET payload = CAST('{}' AS BLOB) WHERE position = 300")
    assert places(verify_folder(settings)) == {("erased_without_event", 300)}


def test_erased_bytes_are_in_no_file_of_the_folder(settings: Settings) -> None:
    secret = b"a-name-that-nobody-else-has"
    with EventStore.open(settings) as store:
        store.append([new_event(data=b'"' + secret + b'"', stream="job-x")]).result(timeout=60)
    assert any(secret in path.read_bytes() for path in settings.folder.iterdir() if path.is_file())
    erase(settings, Erasure(COUNT + 1))
    assert not any(secret in path.read_bytes() for path in settings.folder.iterdir() if path.is_file())
