"""`retrace rebuild`: views and lake folded anew answer as before, and nothing is left beside them."""

from collections.abc import Callable
from typing import Any

import httpx

from service.demo.service_process import ServiceProcess
from service.settings import Settings
from tests.ingest.wire import wire_event

PATHS = ("/v1/jobs/j1", "/v1/jobs/j1/events", "/v1/questions/run-overview")


def answers(service: ServiceProcess) -> list[Any]:
    """What a reader sees, without the moment of asking."""
    found = [httpx.get(f"{service.url}{path}").raise_for_status().json() for path in PATHS]
    return [{name: value for name, value in answer.items() if name not in ("as_of", "next")} for answer in found]


def test_rebuilt_folder_answers_as_before(
    start: Callable[[], ServiceProcess], retrace: Callable[..., tuple[int, Any]], settings: Settings
) -> None:
    service = start()
    events = [wire_event(number) for number in range(1, 8)]
    httpx.post(f"{service.url}/v1/events", json=events).raise_for_status()
    httpx.get(f"{service.url}/v1/jobs/j1", params={"wait_for": 7}).raise_for_status()
    before = answers(service)
    service.stop()
    (settings.folder / "lake.rebuild").mkdir()  # as an interrupted rebuild leaves it

    assert retrace("rebuild") == (0, {"position": 7})

    assert not list(settings.folder.glob("*.rebuild*"))
    assert answers(start()) == before
