"""What every event store keeps to, whatever database it rests on. Read the names: together they are the contract."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from hashlib import sha256

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.audit.merkle import leaf_hash, root_of_leaves
from service.domain.envelope import NewEvent, Receipt, leaf_bytes
from service.domain.events import PayloadErased
from service.errors import (
    EventIdConflict,
    EventNotFound,
    InvalidField,
    SetupError,
    StoreUnavailable,
    VersionConflict,
)
from service.store import Erasure, EventStore
from service.store.retention import expire_payloads
from service.store.tree_edge import TreeEdge
from tests.contracts.conftest import Clock, Place
from tests.event_builders import event_id, new_event, new_events, state_document


def put(store: EventStore, *events: NewEvent, expected_version: int | None = None) -> list[Receipt]:
    return store.append(events, expected_version).result(timeout=60)


# ---- order --------------------------------------------------------------------------------------------------


def test_positions_are_dense_from_one(store: EventStore) -> None:
    receipts = put(store, *new_events(3)) + put(store, *new_events(2, stream="job-j2"))
    assert [receipt.position for receipt in receipts] == [1, 2, 3, 4, 5]
    assert store.head() == 5


def test_each_stream_counts_for_itself(store: EventStore) -> None:
    receipts = put(store, *(new_event(stream=stream) for stream in ("job-a", "job-b", "job-a", "job-b", "job-b")))
    assert [receipt.stream_position for receipt in receipts] == [1, 1, 2, 2, 3]


def test_an_event_comes_back_as_it_was_given(store: EventStore) -> None:
    event = new_event(
        data=b'{"name": "\xc3\xa9 \\u0000 \xf0\x9f\x91\xa9", "a":1.0}',
        correlation_id="start 7", causation_id=event_id(99), salt=b"0123456789abcdef", stream="job-val/loss%2F \u00e9",
    )  # fmt: skip
    put(store, event)
    stored = store.read_one(1)
    assert stored.event == event
    assert (stored.data_size, stored.is_erased) == (len(event.data), False)


def test_numbers_at_the_edge_of_64_bits_survive(store: EventStore) -> None:
    event = new_event(seq=2**63 - 1, schema_version=2**63 - 1, observed_at_us=253_402_300_799_999_999)
    put(store, event)
    assert store.read_one(1).event == event


def test_clock_that_goes_back_does_not_reorder(store: EventStore, clock: Clock) -> None:
    first = put(store, new_event())[0]
    clock.now_us -= 3_600_000_000
    second = put(store, new_event())[0]
    assert second.recorded_at_us == first.recorded_at_us


def test_clock_that_went_back_over_a_restart_does_not_reorder(
    open_store: Callable[..., EventStore], clock: Clock
) -> None:
    with open_store() as store:
        first = put(store, new_event())[0]
    clock.now_us -= 1
    assert put(open_store(), new_event())[0].recorded_at_us == first.recorded_at_us


def test_positions_go_on_after_a_restart(open_store: Callable[..., EventStore]) -> None:
    with open_store() as store:
        put(store, *new_events(300))
    store = open_store()
    assert store.head() == 300
    assert [receipt.position for receipt in put(store, *new_events(300))] == list(range(301, 601))


def test_refused_batch_leaves_no_gap(store: EventStore) -> None:
    put(store, new_event(1))
    with pytest.raises(EventIdConflict):
        put(store, new_event(2), new_event(1, data={"other": 1}), new_event(3))
    with pytest.raises(VersionConflict):
        put(store, new_event(4), expected_version=5)
    assert [receipt.position for receipt in put(store, new_event(5))] == [2]
    assert [event.event.id for event in store.read()] == [event_id(1), event_id(5)]


# ---- redelivery ---------------------------------------------------------------------------------------------


def test_redelivery_gives_the_original_receipt(store: EventStore, clock: Clock) -> None:
    event = new_event()
    original = put(store, event)[0]
    clock.now_us += 1_000_000
    again = put(store, event)[0]
    assert again.is_redelivery
    assert not original.is_redelivery
    assert (again.position, again.stream_position, again.recorded_at_us, again.data_sha256) == (
        original.position, original.stream_position, original.recorded_at_us, original.data_sha256,
    )  # fmt: skip


def test_redelivery_still_works_after_a_restart(open_store: Callable[..., EventStore]) -> None:
    events = new_events(5)
    with open_store() as store:
        original = put(store, *events)
    again = put(open_store(), *events)
    assert [receipt.position for receipt in again] == [receipt.position for receipt in original]
    assert all(receipt.is_redelivery for receipt in again)


def test_same_id_twice_in_one_batch_is_one_event(store: EventStore) -> None:
    event = new_event()
    receipts = put(store, event, new_event(), event)
    assert [receipt.position for receipt in receipts] == [1, 2, 1]
    assert [receipt.is_redelivery for receipt in receipts] == [False, False, True]


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"number": 8}}, {"stream": "job-j2"}, {"event_type": "command.called"}, {"seq": 8},
        {"observed_at_us": 0}, {"schema_version": 2}, {"recorder": "another"},
        {"correlation_id": "x"},
        {"causation_id": event_id(1)},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_same_id_with_other_content_is_a_conflict(store: EventStore, change: dict[str, object]) -> None:
    put(store, new_event(7))
    with pytest.raises(EventIdConflict) as refusal:
        put(store, new_event(7, **change))  # type: ignore[arg-type]
    assert refusal.value.details["position"] == 1
    assert store.head() == 1


def test_same_id_with_other_content_inside_one_batch_is_a_conflict(store: EventStore) -> None:
    with pytest.raises(EventIdConflict):
        put(store, new_event(7), new_event(7, data={"other": 1}))
    assert store.head() == 0


def test_salted_event_is_the_same_event_under_another_salt(store: EventStore) -> None:
    first = put(store, new_event(7, salt=b"a" * 16))[0]
    again = put(store, new_event(7, salt=b"b" * 16))[0]
    assert again.is_redelivery
    assert again.data_sha256 == first.data_sha256
    with pytest.raises(EventIdConflict):
        put(store, new_event(7, data={"other": 1}, salt=b"c" * 16))


# ---- expected version ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", [0, 2, 7])
def test_wrong_expected_version_is_refused_with_both_numbers(store: EventStore, expected: int) -> None:
    put(store, *new_events(3))
    with pytest.raises(VersionConflict) as refusal:
        put(store, new_event(), expected_version=expected)
    assert refusal.value.details == {"stream": "job-j1", "expected": expected, "actual": 3}


def test_right_expected_version_is_taken_by_one_of_two(store: EventStore) -> None:
    put(store, *new_events(3))
    outcomes = [store.append([new_event()], 3) for _ in range(2)]
    assert sorted(type(outcome.exception()).__name__ for outcome in outcomes) == ["NoneType", "VersionConflict"]
    assert [event.stream_position for event in store.read(stream="job-j1")] == [1, 2, 3, 4]


def test_redelivery_with_a_passed_version_is_no_conflict(store: EventStore) -> None:
    event = new_event()
    put(store, event, expected_version=0)
    assert put(store, event, expected_version=0)[0].is_redelivery


def test_expected_version_needs_one_stream(store: EventStore) -> None:
    with pytest.raises(InvalidField):
        store.append([new_event(stream="job-a"), new_event(stream="job-b")], 0)


# ---- what no database can keep -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": "job-" + "\u00e9" * 1250},
        {"stream": "job-\x00"},
        {"stream": "job-\ud83d"},
        {"seq": 2**63},
        {"observed_at_us": 2**62},
        {"seq": -1},
    ],
    ids=["too long", "NUL", "lone surrogate", "65 bits", "year 100000", "negative"],
)
def test_what_cannot_be_kept_is_refused_at_once(store: EventStore, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidField):
        store.append([new_event(), new_event(**fields)])  # type: ignore[arg-type]
    assert store.head() == 0


def test_longest_names_are_kept(store: EventStore) -> None:
    """They do not repeat themselves, so that no database can shorten them in its index."""
    name = "".join(sha256(str(at).encode()).hexdigest() for at in range(37))
    for event in (new_event(stream=name), new_event(recorder=name), new_event(event_type=name)):
        put(store, event)
        assert store.read_one(store.head()).event == event


def test_empty_batch_is_answered_with_no_receipts(store: EventStore) -> None:
    assert put(store) == []


# ---- reading -------------------------------------------------------------------------------------------------


def test_pages_join_without_hole_or_repeat(store: EventStore) -> None:
    put(store, *new_events(101))
    seen: list[int] = []
    while page := store.read(after=seen[-1] if seen else 0, limit=7):
        seen += [event.position for event in page]
    assert seen == list(range(1, 102))


def test_reading_stops_at_up_to(store: EventStore) -> None:
    put(store, *new_events(10))
    assert [event.position for event in store.read(after=2, up_to=5)] == [3, 4, 5]


def test_one_stream_is_read_alone_from_any_position(store: EventStore) -> None:
    put(store, *(new_event(stream=f"job-{at % 3}") for at in range(60)))
    for after in range(61):
        positions = [event.position for event in store.read(after=after, stream="job-1", limit=5)]
        assert positions == [position for position in range(2, 61, 3) if position > after][:5]
    assert store.read(stream="job-unknown") == []


def test_event_is_found_by_its_id(store: EventStore) -> None:
    put(store, *new_events(3), new_event(77))
    found = store.find(event_id(77))
    assert found is not None
    assert found.position == 4
    assert store.find(event_id(78)) is None


def test_position_that_is_not_there_is_not_found(store: EventStore) -> None:
    with pytest.raises(EventNotFound):
        store.read_one(1)


def test_moment_gives_the_last_position_recorded_by_then(store: EventStore, clock: Clock) -> None:
    start = clock.now_us
    for _ in range(5):
        put(store, *new_events(2))
        clock.now_us += 1000
    assert [store.position_at(start + at) for at in (-1, 0, 999, 1000, 4500)] == [0, 2, 2, 4, 10]


def test_waiting_ends_when_an_event_comes(store: EventStore) -> None:
    heads: list[int] = []
    waiter = threading.Thread(target=lambda: heads.append(store.wait_beyond(0, timeout_s=30)))
    waiter.start()
    put(store, new_event())
    waiter.join(timeout=30)
    assert heads == [1]


def test_waiting_for_nothing_ends_with_the_time(store: EventStore) -> None:
    assert store.wait_beyond(0, timeout_s=0.01) == 0


def test_closing_wakes_who_waits(open_store: Callable[..., EventStore]) -> None:
    store = open_store()
    heads: list[int] = []
    waiter = threading.Thread(target=lambda: heads.append(store.wait_beyond(0, timeout_s=60)))
    waiter.start()
    store.close()
    waiter.join(timeout=30)
    assert heads == [0]


def test_read_only_store_follows_a_running_writer(open_store: Callable[..., EventStore]) -> None:
    writer = open_store()
    put(writer, new_event())
    reader = open_store(read_only=True)
    put(writer, new_event())
    assert reader.wait_beyond(1, timeout_s=30) == 2
    assert len(reader.read()) == 2
    with pytest.raises(SetupError):
        reader.append([new_event()])


# ---- many at once --------------------------------------------------------------------------------------------


def test_concurrent_senders_are_all_stored_once(store: EventStore) -> None:
    batches = [new_events(5, stream=f"job-{at % 4}") for at in range(64)]
    with_repeats = [*batches, *batches[::2]]
    futures: list[Future[list[Receipt]]] = []
    lock = threading.Lock()

    def send(part: list[list[NewEvent]]) -> None:
        for batch in part:
            future = store.append(batch)
            with lock:
                futures.append(future)

    senders = [threading.Thread(target=send, args=(with_repeats[at::8],)) for at in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    acknowledged = {receipt.position: receipt.id for future in futures for receipt in future.result(timeout=60)}
    assert acknowledged == {event.position: event.event.id for event in store.read()}
    assert sorted(acknowledged) == list(range(1, 321))


def test_refused_request_does_not_fail_its_neighbours(store: EventStore) -> None:
    put(store, new_event(7))
    futures = [store.append([new_event()] if at % 3 else [new_event(7, data={"other": at})]) for at in range(30)]
    outcomes = [future.exception(timeout=60) for future in futures]
    assert all(isinstance(outcome, EventIdConflict) == (at % 3 == 0) for at, outcome in enumerate(outcomes))
    assert store.head() == 21


def test_closed_store_refuses_with_a_retryable_error(open_store: Callable[..., EventStore]) -> None:
    store = open_store()
    store.close()
    with pytest.raises(StoreUnavailable):
        store.append([new_event()])


def test_future_that_its_sender_gave_up_does_no_harm(store: EventStore) -> None:
    futures = [store.append([new_event()]) for _ in range(50)]
    for future in futures[::2]:
        future.cancel()
    assert put(store, new_event())[0].position == store.head()


# ---- what is stored --------------------------------------------------------------------------------------------


def test_repeats_are_stored_once_and_read_back_whole(store: EventStore) -> None:
    documents = [state_document(step) for step in range(200)]
    put(store, *(new_event(data=document) for document in documents))
    assert [event.data for event in store.read()] == documents
    assert [store.read_one(position).data for position in (1, 64, 65, 128, 200)] == [
        documents[at] for at in (0, 63, 64, 127, 199)
    ]


def test_tiles_hold_the_leaves_of_all_events(store: EventStore) -> None:
    for count in (1, 255, 1, 300, 43):
        put(store, *new_events(count))
    leaves = [leaf_hash(leaf_bytes(event)) for event in store.read()]
    edge, tiles = TreeEdge().extended(leaves)
    assert edge.root() == root_of_leaves(leaves)
    assert {(level, index): store.tile(level, index) for level, index, _ in tiles} == {
        (level, index): hashes for level, index, hashes in tiles
    }


# ---- laws ------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), min_size=1, max_size=8), job=st.uuids())
def test_any_mix_of_known_and_new_events_gives_original_receipts(
    store: EventStore, batches: list[list[int]], job: object
) -> None:  # fmt: skip
    """Each example writes its own stream and ids into one store, so examples do not see each other."""
    base = store.head() * 1000 + 1_000_000
    before = store.head()
    first: dict[int, Receipt] = {}
    for batch in batches:
        events = [new_event(base + number, stream=f"job-{job}-{before}") for number in batch]
        for number, receipt in zip(batch, put(store, *events), strict=True):
            original = first.setdefault(number, receipt)
            assert receipt.position == original.position
            assert receipt.is_redelivery == (receipt is not original)
    assert sorted(receipt.position for receipt in first.values()) == list(range(before + 1, store.head() + 1))
    assert [first[number].stream_position for number in first] == list(range(1, len(first) + 1))


# ---- erasure -----------------------------------------------------------------------------------------------------


def erased_event(facts: PayloadErased) -> NewEvent:
    return new_event(event_type="payload.erased", stream="job-j1", data=msgspec.json.encode(facts))


def test_erased_payload_is_gone_and_its_envelope_and_leaf_stay(store: EventStore) -> None:
    put(store, *new_events(3), new_event(data={"name": "somebody"}, salt=b"s" * 16))
    before = store.read_one(4)
    receipt = store.erase([Erasure(4)], "asked by the person", erased_event)
    after = store.read_one(4)
    assert receipt.position == 5
    assert (after.is_erased, after.data, after.event.salt) == (True, b"", b"")
    assert leaf_bytes(after) == leaf_bytes(before)
    said = msgspec.json.decode(store.read_one(5).data, type=PayloadErased)
    assert [(one.position, one.redacted_sha256) for one in said.payloads] == [(4, None)]


def test_redacted_payload_shows_the_document_in_its_place(store: EventStore) -> None:
    put(store, new_event(data=state_document(1)))
    before = store.read_one(1)
    redacted = b'{"participants":[]}'
    store.erase([Erasure(1, redacted)], "one participant asked", erased_event)
    after = store.read_one(1)
    assert (after.data, after.is_redacted, after.is_erased) == (redacted, True, False)
    assert leaf_bytes(after) == leaf_bytes(before)
    said = msgspec.json.decode(store.read_one(2).data, type=PayloadErased)
    assert said.payloads[0].redacted_sha256 == sha256(redacted).hexdigest()


def test_events_that_leaned_on_an_erased_one_are_still_read(store: EventStore) -> None:
    documents = [state_document(step) for step in range(150)]
    put(store, *(new_event(data=document) for document in documents))
    gone = {1, 2, 65, 100}
    store.erase([Erasure(position) for position in sorted(gone)], "age", erased_event)
    put(store, new_event(data=state_document(150)))
    for event in store.read():
        if event.position <= 150:
            assert event.data == (b"" if event.position in gone else documents[event.position - 1])
    assert store.read_one(152).data == state_document(150)


def test_erasing_twice_is_harmless(store: EventStore) -> None:
    put(store, *new_events(2))
    for _ in range(2):
        store.erase([Erasure(1)], "age", erased_event)
    assert [event.is_erased for event in store.read()] == [True, False, False, False]


def test_erasure_of_an_unknown_position_changes_nothing(store: EventStore) -> None:
    put(store, *new_events(2))
    with pytest.raises(EventNotFound):
        store.erase([Erasure(1), Erasure(9)], "age", erased_event)
    assert [event.is_erased for event in store.read()] == [False, False]


def test_erased_event_that_is_sent_again_does_not_come_back(store: EventStore) -> None:
    event = new_event(data={"name": "somebody"}, salt=b"s" * 16)
    original = put(store, event)[0]
    store.erase([Erasure(1)], "asked", erased_event)
    again = put(store, event)[0]
    assert (again.position, again.is_redelivery) == (original.position, True)
    assert store.read_one(1).is_erased


def test_retention_takes_out_what_is_older_than_a_moment(store: EventStore, clock: Clock) -> None:
    put(store, *new_events(700), *new_events(2, stream="job-j2"), new_event(event_type="artifact.archived"))
    last_old_us = clock.now_us
    clock.now_us += 1_000_000
    put(store, *new_events(5))
    assert expire_payloads(store, last_old_us, erased_event, stream="job-j2") == 2
    assert expire_payloads(store, last_old_us, erased_event) == 700
    assert expire_payloads(store, last_old_us, erased_event) == 0
    kept = [event.position for event in store.read(limit=2000) if not event.is_erased]
    assert kept == [703, 704, 705, 706, 707, 708, 709, 710, 711]


# ---- load --------------------------------------------------------------------------------------------------------


def test_writers_readers_and_a_stranger_with_a_lock_lose_nothing(place: Place, store: EventStore) -> None:
    """F14: 8 writers x 500 events over 4 jobs, 2 readers, and somebody who holds the write lock in between."""
    acknowledged: list[int] = []
    refusals: list[Exception] = []
    done, lock = threading.Event(), threading.Lock()

    def write(number: int) -> None:
        for _ in range(100):
            batch = new_events(5, stream=f"job-{number % 4}")
            while True:
                try:
                    receipts = store.append(batch).result(timeout=60)
                    break
                except StoreUnavailable as refusal:  # the only refusal allowed, and the same ids go in later
                    refusals.append(refusal)
            with lock:
                acknowledged.extend(receipt.position for receipt in receipts)

    gaps: list[int] = []

    def read() -> None:
        seen = 0
        while not done.is_set() or store.head() > seen:
            for event in store.read(after=seen, limit=200):
                if event.position != seen + 1:
                    gaps.append(event.position)
                seen = event.position

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    with place.locked():
        for thread in (*writers, *readers):
            thread.start()
        assert store.head() == 0
    for writer in writers:
        writer.join()
    done.set()
    for reader in readers:
        reader.join()
    assert gaps == []
    assert sorted(acknowledged) == list(range(1, 4001))
    assert store.head() == 4000
    assert all(refusal.details["retry_after_s"] > 0 for refusal in refusals if isinstance(refusal, StoreUnavailable))


def test_follower_misses_nothing_when_bulk_comes_beside_single_events(store: EventStore) -> None:
    seen: list[int] = []

    def follow() -> None:
        while len(seen) < 3 * 5050:
            store.wait_beyond(len(seen), timeout_s=60)
            seen.extend(event.position for event in store.read(after=len(seen), limit=500))

    follower = threading.Thread(target=follow)
    follower.start()
    for _ in range(3):
        futures = [store.append(new_events(5000, stream="job-bulk"))]
        futures += [store.append([new_event(stream="job-live")]) for _ in range(50)]
        for future in futures:
            future.result(timeout=60)
    follower.join(timeout=60)
    assert seen == list(range(1, 3 * 5050 + 1))
