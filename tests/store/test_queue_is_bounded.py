"""The queue in front of the writer: bounded, in order, and honest when it is full."""

import threading
from pathlib import Path

import pytest

from service.errors import StoreOverloaded, StoreUnavailable, TooLarge
from service.settings import Settings
from service.store import EventStore
from service.store.requests import GROUP_EVENTS_MAX, RequestQueue, prepare
from tests.event_builders import new_event, new_events


def test_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    queue = RequestQueue(requests_max=2, bytes_max=1_000_000)
    for _ in range(2):
        queue.put(prepare([new_event()], None))
    with pytest.raises(StoreOverloaded) as refusal:
        queue.put(prepare([new_event()], None))
    assert refusal.value.details["retry_after_s"] > 0


def test_queue_is_bounded_in_bytes_until_the_requests_are_answered() -> None:
    queue = RequestQueue(requests_max=100, bytes_max=20_000)
    queue.put(prepare([new_event(data=b'"' + b"x" * 15_000 + b'"')], None))
    group = queue.take_group()
    with pytest.raises(StoreOverloaded):
        queue.put(prepare([new_event(data=b'"' + b"x" * 15_000 + b'"')], None))
    queue.done(group)
    queue.put(prepare([new_event(data=b'"' + b"x" * 15_000 + b'"')], None))


def test_batch_that_could_never_fit_is_not_told_to_come_back() -> None:
    queue = RequestQueue(requests_max=100, bytes_max=20_000)
    with pytest.raises(TooLarge) as refusal:
        queue.put(prepare([new_event(data=b'"' + b"x" * 30_000 + b'"')], None))
    assert refusal.value.details["limit"] == 20_000


def test_group_takes_what_waits_up_to_a_number_of_events() -> None:
    queue = RequestQueue(requests_max=100, bytes_max=100_000_000)
    requests = [prepare(new_events(GROUP_EVENTS_MAX // 2), None) for _ in range(3)]
    for request in requests:
        queue.put(request)
    assert queue.take_group() == requests[:2]
    assert queue.take_group() == requests[2:]


def test_large_batch_is_a_group_of_its_own() -> None:
    queue = RequestQueue(requests_max=100, bytes_max=100_000_000)
    requests = [prepare(new_events(count), None) for count in (1, GROUP_EVENTS_MAX + 1, 1)]
    for request in requests:
        queue.put(request)
    assert [queue.take_group() for _ in range(3)] == [[request] for request in requests]


def test_closed_queue_hands_out_what_waits_and_takes_no_more() -> None:
    queue = RequestQueue(requests_max=100, bytes_max=1_000_000)
    request = prepare([new_event()], None)
    queue.put(request)
    queue.close()
    with pytest.raises(StoreUnavailable):
        queue.put(prepare([new_event()], None))
    assert queue.take_group() == [request]
    assert queue.take_group() == []


def test_overloaded_store_takes_events_again_when_the_writer_is_free(tmp_path: Path) -> None:
    """Work that waits for us stands for a slow disk; nothing that was acknowledged is lost by the refusals."""
    free = threading.Event()
    with EventStore.open(Settings(data=str(tmp_path), queue_requests_max=3)) as store:
        slow = store.transact(lambda _: free.wait(60))
        futures = []
        while True:
            try:
                futures.append(store.append([new_event()]))
            except StoreOverloaded:
                break
        assert len(futures) <= 4
        free.set()
        assert slow.result(timeout=60)
        acknowledged = [future.result(timeout=60)[0].position for future in futures]
        assert store.append([new_event()]).result(timeout=60)[0].position == len(acknowledged) + 1
