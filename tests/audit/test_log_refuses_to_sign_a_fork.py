"""The log over a real store: heads, proofs, and the moments when it must not sign."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from service.audit import merkle
from service.audit.entries import unpack_entries
from service.audit.log import TransparencyLog
from service.audit.log_key import LogKey
from service.audit.signed_note import SigningKey
from service.audit.tree_head import open_head
from service.domain.envelope import leaf_bytes
from service.errors import LogForked, NotFound, SetupError
from service.settings import Settings
from service.store import EventStore
from tests.event_builders import new_events

ORIGIN = Settings().log_origin


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path))


@pytest.fixture
def key(tmp_path: Path) -> LogKey:
    return LogKey.open(tmp_path, ORIGIN, random_bytes=lambda count: b"\x07" * count)


def fill(store: EventStore, count: int) -> None:
    store.append(new_events(count)).result(timeout=60)


def rewrite(settings: Settings, *statements: str) -> None:
    connection = sqlite3.connect(settings.folder / "events.sqlite")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_head_proofs_and_tiles_fit_together(settings: Settings, key: LogKey) -> None:
    with EventStore.open(settings) as store:
        log = TransparencyLog(store, key, ORIGIN)
        fill(store, 300)
        old = open_head(log.signed_head(), key.verifiers, ORIGIN)
        fill(store, 301)
        head = open_head(log.signed_head(), key.verifiers, ORIGIN)
        assert (old.size, head.size, log.head()) == (300, 601, head)
        merkle.verify_consistency(300, 601, old.root, head.root, log.consistency_proof(300, 601))
        for position in (1, 256, 257, 601):
            leaf = merkle.leaf_hash(leaf_bytes(store.read_one(position)))
            merkle.verify_inclusion(position - 1, 601, leaf, log.inclusion_proof(position - 1, 601), head.root)
        leaves = unpack_entries(log.entries(2, 89))
        assert b"".join(merkle.leaf_hash(leaf) for leaf in leaves) == log.tile(0, 2, 89)
        assert log.tile(1, 0, 2) == merkle.perfect_root(log.tile(0, 0)) + merkle.perfect_root(log.tile(0, 1))


def test_head_of_an_empty_log_can_be_signed(settings: Settings, key: LogKey) -> None:
    with EventStore.open(settings) as store:
        log = TransparencyLog(store, key, ORIGIN)
        assert open_head(log.signed_head(), key.verifiers, ORIGIN).root == merkle.EMPTY_ROOT
        fill(store, 1)
        assert open_head(log.signed_head(), key.verifiers, ORIGIN).size == 1


def test_head_is_signed_once_while_nothing_is_added(settings: Settings, key: LogKey) -> None:
    with EventStore.open(settings) as store:
        log = TransparencyLog(store, key, ORIGIN)
        fill(store, 3)
        assert log.signed_head() == log.signed_head() == store.newest_head()


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.tile(0, 0, 4),
        lambda log: log.tile(0, 0),
        lambda log: log.tile(1, 0, 1),
        lambda log: log.tile(0, -1, 1),
        lambda log: log.tile(0, 0, 0),
        lambda log: log.entries(0, 4),
        lambda log: log.entries(1, 1),
        lambda log: log.inclusion_proof(3, 3),
        lambda log: log.inclusion_proof(0, 4),
        lambda log: log.consistency_proof(3, 2),
    ],
)
def test_what_the_log_does_not_have_is_not_found(
    settings: Settings, key: LogKey, ask: Callable[[TransparencyLog], object]
) -> None:  # fmt: skip
    with EventStore.open(settings) as store:
        fill(store, 3)
        with pytest.raises(NotFound):
            ask(TransparencyLog(store, key, ORIGIN))


def test_restored_old_backup_is_not_signed(settings: Settings, key: LogKey) -> None:
    """The database remembers nothing of the later head; the file beside it does."""
    database = settings.folder / "events.sqlite"
    with EventStore.open(settings) as store:
        fill(store, 5)
        TransparencyLog(store, key, ORIGIN).signed_head()
    backup = database.read_bytes()
    with EventStore.open(settings) as store:
        fill(store, 5)
        TransparencyLog(store, key, ORIGIN).signed_head()
    database.write_bytes(backup)
    with EventStore.open(settings) as store:
        with pytest.raises(LogForked, match="old backup"):
            TransparencyLog(store, key, ORIGIN).signed_head()
        fill(store, 9)
        with pytest.raises(LogForked, match="history was rewritten"):
            TransparencyLog(store, key, ORIGIN).signed_head()
        assert store.head() == 14


def test_changed_tile_is_not_signed_over(settings: Settings, key: LogKey) -> None:
    with EventStore.open(settings) as store:
        fill(store, 5)
        TransparencyLog(store, key, ORIGIN).signed_head()
    rewrite(settings, "UPDATE tiles SET hashes = zeroblob(length(hashes))")
    with EventStore.open(settings) as store:
        fill(store, 1)
        with pytest.raises(LogForked, match="history was rewritten"):
            TransparencyLog(store, key, ORIGIN).signed_head()


def test_kept_head_without_our_signature_is_not_extended(settings: Settings, key: LogKey) -> None:
    """An intruder who rewrites events, tiles and the kept root has no key to sign them with."""
    with EventStore.open(settings) as store:
        fill(store, 5)
        TransparencyLog(store, key, ORIGIN).signed_head()
    rewrite(settings, "UPDATE tree_heads SET note = replace(note, 'A', 'B')")
    with EventStore.open(settings) as store, pytest.raises(LogForked, match="cannot be trusted"):
        TransparencyLog(store, key, ORIGIN).signed_head()


def test_store_goes_on_after_a_refused_signature(settings: Settings, key: LogKey) -> None:
    with EventStore.open(settings) as store:
        fill(store, 2)
        key.remember("no note")
        with pytest.raises(LogForked):
            TransparencyLog(store, key, ORIGIN).signed_head()
        fill(store, 2)
        assert store.head() == 4


def test_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = LogKey.open(tmp_path / "data", ORIGIN)
    assert LogKey.open(tmp_path / "data", ORIGIN).signers == first.signers
    assert (tmp_path / "data" / "log-key").stat().st_mode & 0o777 == 0o600


def test_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    LogKey.open(tmp_path, ORIGIN)
    (tmp_path / "log-key").chmod(0o644)
    with pytest.raises(SetupError, match="chmod 600"):
        LogKey.open(tmp_path, ORIGIN)


@pytest.mark.parametrize("text", ["", "nonsense\n", "PRIVATE+KEY+x+00000000+AAAA\n"])
def test_damaged_key_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log-key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SetupError):
        LogKey.open(tmp_path, ORIGIN)


def test_key_of_another_origin_is_refused(tmp_path: Path) -> None:
    LogKey.open(tmp_path, ORIGIN)
    with pytest.raises(SetupError, match="RETRACE_LOG_ORIGIN"):
        LogKey.open(tmp_path, "elsewhere.example/log")


def test_two_keys_in_the_file_both_sign(settings: Settings, key: LogKey) -> None:
    """A rotation with overlap: the new key stands first, and who knows only the old one can still check."""
    new = SigningKey(ORIGIN, b"\x08" * 32)
    path = settings.folder / "log-key"
    with EventStore.open(settings) as store:
        fill(store, 3)
        before = TransparencyLog(store, key, ORIGIN).signed_head()
        path.write_text(f"{new.text}\n{path.read_text()}")
        after = TransparencyLog(store, LogKey.open(settings.folder, ORIGIN), ORIGIN).signed_head()
    assert after != before
    for verifier in (new.verifier, *key.verifiers):
        assert open_head(after, [verifier], ORIGIN).size == 3


def test_lost_key_is_not_replaced_in_silence(tmp_path: Path, key: LogKey) -> None:
    key.remember("a note that was signed")
    (tmp_path / "log-key").unlink()
    with pytest.raises(SetupError, match="restore it from a backup"):
        LogKey.open(tmp_path, ORIGIN)
    assert not (tmp_path / "log-key").exists()
