"""`kill -9` in the middle of a load of batches: every acknowledged event is there once, and the log verifies."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx

from service.demo.service_process import ServiceProcess
from tests.ingest.wire import NDJSON, wire_event

SENDERS = 4
ACKNOWLEDGED_BEFORE_KILL = 60


class Load:
    """Senders that post batches until the service goes away; `acknowledged` is what they were promised."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: dict[str, int] = {}
        self.enough = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(sender,)) for sender in range(SENDERS)]

    def run_until_killed(self, kill: Callable[[], None]) -> None:
        for thread in self._threads:
            thread.start()
        assert self.enough.wait(60), "the service acknowledged too little"
        kill()
        for thread in self._threads:
            thread.join()

    def _send(self, sender: int) -> None:
        number = sender * 1_000_000
        with httpx.Client(base_url=self.url, timeout=30) as client:
            while True:
                batch = [wire_event(number + i, stream=f"job-{sender}") for i in range(1, 21)]
                number += len(batch)
                body = "\n".join(map(json.dumps, batch))
                try:
                    answer = client.post("/v1/events", content=body, headers={"content-type": NDJSON})
                except httpx.TransportError:
                    return  # killed: this batch was not acknowledged
                assert answer.status_code == 201, answer.text
                for receipt in answer.json()["receipts"]:
                    self.acknowledged[receipt["id"]] = receipt["position"]
                if len(self.acknowledged) >= ACKNOWLEDGED_BEFORE_KILL * 20:
                    self.enough.set()


def stored_positions(client: httpx.Client) -> dict[str, int]:
    found: dict[str, int] = {}
    for sender in range(SENDERS):
        cursor: dict[str, Any] = {}
        while True:
            page = client.get(f"/v1/jobs/{sender}/events", params={"limit": 500, **cursor}).json()
            for event in page["events"]:
                assert event["id"] not in found, "stored twice"
                found[event["id"]] = event["position"]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
    return found


def test_killed_service_keeps_what_it_acknowledged(
    start: Callable[[], ServiceProcess], retrace: Callable[..., tuple[int, Any]]
) -> None:
    service = start()
    load = Load(service.url)
    load.run_until_killed(service.kill)

    revived = start()
    with httpx.Client(base_url=revived.url, timeout=30) as client:
        stored = stored_positions(client)
    revived.stop()

    assert load.acknowledged.items() <= stored.items()
    assert sorted(stored.values()) == list(range(1, len(stored) + 1))
    exit_code, report = retrace("verify")
    assert exit_code == 0, report
    assert report["is_verified"] is True
    assert report["events"] == len(stored)
