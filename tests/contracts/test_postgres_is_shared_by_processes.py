"""Several stores on one PostgreSQL database: one sequence, one log, and troubles that pass."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from service.audit.log import TransparencyLog
from service.audit.log_key import LogKey
from service.audit.tree_head import open_head
from service.audit.verify import verify_folder, verify_store
from service.domain.envelope import NewEvent
from service.domain.events import PayloadErased
from service.errors import SetupError, StoreUnavailable
from service.settings import Settings
from service.store import Erasure, EventStore
from tests.contracts.conftest import POSTGRES
from tests.event_builders import new_event, new_events, state_document
from tests.postgres_server import PostgresServer

ORIGIN = Settings().log_origin


@pytest.fixture(params=POSTGRES)
def settings(request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], PostgresServer]) -> Settings:
    return Settings(data=str(tmp_path), database_url=servers(request.param).new_database())


@pytest.fixture
def stores(settings: Settings) -> Iterator[list[EventStore]]:
    """Three stores as three processes would open them."""
    opened = [EventStore.open(settings) for _ in range(3)]
    yield opened
    for store in opened:
        store.close()


def test_senders_of_all_stores_share_one_dense_sequence(stores: list[EventStore]) -> None:
    positions: list[int] = []
    lock = threading.Lock()

    def send(store: EventStore, stream: str) -> None:
        for _ in range(20):
            receipts = store.append(new_events(5, stream=stream)).result(timeout=60)
            with lock:
                positions.extend(receipt.position for receipt in receipts)

    senders = [
        threading.Thread(target=send, args=(store, f"job-{at % 2}")) for store in stores for at in range(2)
    ]  # fmt: skip
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sorted(positions) == list(range(1, 601))
    assert [store.head() for store in stores] == [600] * 3
    assert verify_store(stores[0], [], [], ORIGIN).is_sound


def test_reader_never_sees_a_gap_while_others_write(stores: list[EventStore]) -> None:
    """A reader that has seen position n has seen all below it, so nothing is passed by."""
    done = threading.Event()

    def send(store: EventStore) -> None:
        for _ in range(40):
            store.append(new_events(3)).result(timeout=60)

    senders = [threading.Thread(target=send, args=(store,)) for store in stores[:2]]
    seen: list[int] = []

    def follow() -> None:
        while not done.is_set() or stores[2].head() > len(seen):
            stores[2].wait_beyond(len(seen), timeout_s=0.05)
            seen.extend(event.position for event in stores[2].read(after=len(seen)))

    follower = threading.Thread(target=follow)
    for thread in (*senders, follower):
        thread.start()
    for sender in senders:
        sender.join()
    done.set()
    follower.join()
    assert seen == list(range(1, 241))


def test_redelivery_to_another_process_gives_the_original_receipt(stores: list[EventStore]) -> None:
    events = new_events(10)
    original = stores[0].append(events).result(timeout=60)
    again = stores[1].append([*events, new_event()]).result(timeout=60)
    assert [receipt.position for receipt in again[:10]] == [receipt.position for receipt in original]
    assert again[10].position == 11


def test_clock_of_a_process_that_is_behind_does_not_reorder(settings: Settings) -> None:
    with (
        EventStore.open(settings, clock=lambda: 2_000_000) as ahead,
        EventStore.open(settings, clock=lambda: 1) as behind,
    ):
        first = ahead.append([new_event()]).result(timeout=60)[0]
        assert behind.append([new_event()]).result(timeout=60)[0].recorded_at_us == first.recorded_at_us


def test_payload_erased_by_another_process_is_not_leaned_on(stores: list[EventStore]) -> None:
    """The first process holds the keyframe in memory; after the erasure it must not patch against it."""

    def event(facts: PayloadErased) -> NewEvent:
        return new_event(event_type="payload.erased", data=msgspec.json.encode(facts))

    documents = [state_document(step) for step in range(6)]
    stores[0].append([new_event(data=document) for document in documents[:3]]).result(timeout=60)
    stores[1].erase([Erasure(1)], "asked", event)
    stores[0].append([new_event(data=document) for document in documents[3:]]).result(timeout=60)
    assert [one.data for one in stores[2].read() if one.event.type == "state.reported"] == [b"", *documents[1:]]


def test_heads_signed_by_two_processes_extend_each_other(stores: list[EventStore], settings: Settings) -> None:
    key = LogKey.open(settings.folder, ORIGIN)
    sizes = []
    for store in stores * 2:
        store.append(new_events(100)).result(timeout=60)
        sizes.append(open_head(TransparencyLog(store, key, ORIGIN).signed_head(), key.verifiers, ORIGIN).size)
    assert sizes == [100, 200, 300, 400, 500, 600]


def test_delivery_goes_on_when_the_listening_connection_is_killed(
    stores: list[EventStore], settings: Settings
) -> None:  # fmt: skip
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        killed = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            " AND datname = current_database()"
        ).fetchone()
    assert killed is not None
    assert killed[0] >= 1
    stores[0].append([new_event()]).result(timeout=60)
    assert stores[1].wait_beyond(0, timeout_s=30) == 1


def test_write_lock_held_elsewhere_delays_and_then_lets_go(stores: list[EventStore], settings: Settings) -> None:
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
        waiting = stores[0].append([new_event()])
        assert not waiting.done()
        connection.rollback()
    assert waiting.result(timeout=60)[0].position == 1


def test_server_that_stops_suddenly_gives_retryable_refusals_and_loses_nothing(tmp_path: Path) -> None:
    """SIGQUIT is PostgreSQL's sudden end: it recovers from its log at the next start."""
    installation = next(iter(POSTGRES.values()))
    with PostgresServer(installation, durable=True) as server:
        settings = Settings(data=str(tmp_path), database_url=server.new_database())
        with EventStore.open(settings) as store:
            batches = [new_events(5) for _ in range(60)]
            receipts = [store.append(batch).result(timeout=60) for batch in batches[:30]]
            futures = [store.append(batch) for batch in batches[30:]]
            server.stop(signal.SIGQUIT)
            outcomes = [future.exception(timeout=60) for future in futures]
            assert all(outcome is None or isinstance(outcome, StoreUnavailable) for outcome in outcomes)
            with pytest.raises(StoreUnavailable) as refusal:
                store.append([new_event()]).result(timeout=60)
            assert refusal.value.details["retry_after_s"] > 0
            server.start()
            again = [store.append(batch).result(timeout=60) for batch in batches]
            assert [[one.position for one in batch] for batch in again[:30]] == [
                [one.position for one in batch] for batch in receipts
            ]
            assert store.head() == 300
            assert verify_store(store, [], [], ORIGIN).is_sound


def test_address_that_no_server_answers_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        EventStore.open(Settings(data=str(tmp_path), database_url=f"postgresql://postgres@/x?host={tmp_path}"))


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite:///x"])
def test_address_of_another_kind_of_database_is_a_set_up_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(SetupError, match="postgresql://"):
        EventStore.open(Settings(data=str(tmp_path), database_url=url))


def test_database_is_verified_like_a_folder(stores: list[EventStore], settings: Settings) -> None:
    assert settings.database_url is not None
    for store in stores:
        store.append(new_events(200)).result(timeout=60)
    note = TransparencyLog(stores[0], LogKey.open(settings.folder, ORIGIN), ORIGIN).signed_head()
    report = verify_folder(settings, note)
    assert (report.is_sound, report.events, report.since_size) == (True, 600, 600)
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("UPDATE events SET seq = seq + 1 WHERE position = 300")
    assert ("leaf_differs", 300) in {(one.code, one.position) for one in verify_folder(settings, note).findings}
