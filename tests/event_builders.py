"""Events for tests: valid by default, each argument changes one thing. Ids are counted, so tests are repeatable."""

import itertools
import json
import uuid
from typing import Any

from service.domain.envelope import NewEvent, Source

RECORDER = "0190aaaa-0000-7000-8000-000000000001"
SITE = "https://lab.example"
MOMENT_US = 1_764_565_200_000_000
_numbers = itertools.count(1)


def event_id(number: int) -> str:
    """A UUIDv7 made from a number."""
    return str(uuid.UUID(int=(0x0190_0000_0000_7000_8000 << 48) + number))


def new_event(
    number: int | None = None,
    *,
    event_type: str = "state.reported",
    stream: str = "job-j1",
    data: Any = None,
    recorder: str = RECORDER,
    seq: int | None = None,
    observed_at_us: int | None = None,
    schema_version: int = 1,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    salt: bytes | None = None,
) -> NewEvent:
    """One event; `data` is a JSON value, or bytes that are taken as they are."""
    number = next(_numbers) if number is None else number
    payload = data if isinstance(data, bytes) else json.dumps({"number": number} if data is None else data).encode()
    return NewEvent(
        id=event_id(number),
        type=event_type,
        schema_version=schema_version,
        stream=stream,
        observed_at_us=MOMENT_US + number if observed_at_us is None else observed_at_us,
        source=Source(recorder, number if seq is None else seq, SITE),
        data=payload,
        correlation_id=correlation_id,
        causation_id=causation_id,
        salt=salt,
    )


def new_events(count: int, **fields: Any) -> list[NewEvent]:
    """`count` events that differ in id, sequence number and data."""
    return [new_event(**fields) for _ in range(count)]


def state_document(step: int, participants: int = 4) -> bytes:
    """A State document of a running job; from one step to the next only progress and speeds change."""
    return json.dumps(
        {
            "role": "owner",
            "job": {
                "id": "j1",
                "createdAt": 1_764_560_000_000,
                "settings": {"epochs": 12, "aggregation": "FedAvg", "snapshotIntervalMs": 2000, "staleAfterMs": 10_000},
                "state": {"phase": "running", "round": step // 30, "completedPasses": step // 30},
            },
            "participants": [
                {
                    "id": f"p{number}",
                    "name": f"laptop {number}",
                    "status": "joined",
                    "lastSeenAt": 1_764_565_200_000 + step * 2000 + number * 37,
                    "execution": {
                        "backend": "webgpu" if number % 3 else "wasm",
                        "workers": 2,
                        "stage": ("downloading", "training", "uploading")[(step + number) % 3],
                        "assignment": {"id": f"a-{step // 30}-{number}", "round": step // 30, "units": 64},
                        "computeOnlySamplesPerSecond": 100 + (step * 7919 + number * 104_729) % 997 / 10,
                    },
                }
                for number in range(participants)
            ],
            "checkpoints": [{"round": r, "sha256": f"{r:064x}", "bytes": 11_000} for r in range(step // 30)],
        }
    ).encode()
