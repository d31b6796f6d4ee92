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
    """A State document of a running job as a page reports it every 2 s, in the shape that `domain/lens.py` reads.

    From one step to the next every participant reports anew (time and speed change), and one in five changes stage.
    """
    rounds = step // 30
    return json.dumps({
        "role": "owner",
        "visible": True,
        "preferences": {"backend": "webgpu", "maxLocalWorkers": 4, "gpuMemoryBudgetMiB": 512},
        "storage": {"usedBytes": 11_000 * rounds},
        "savedJobs": [],
        "invitations": [],
        "transfer": None,
        "job": {
            "id": "j1",
            "createdAt": 1_764_560_000_000,
            "hasModuleFile": True,
            "initialSha256": f"{7:064x}",
            "localWorkers": 2,
            "progress": {"round": rounds, "of": 40},
            "settings": {
                "epochs": 40, "aggregation": "FedAvgM", "aggregationSettings": {"momentum": 0.7, "rate": 1.0},
                "snapshotIntervalMs": 2000, "staleAfterMs": 10_000,
            },
            "executionFiles": {"wasm": {"name": "model.wasm", "sha256": f"{8:064x}"}, "wgsl": None},
            "metricLabels": [{"key": "accuracy", "label": "Accuracy", "direction": "max"}],
            "state": {"phase": "running", "round": rounds, "completedPasses": rounds, "startedAt": 1_764_560_001_000},
        },
        "participants": [_participant(number, step) for number in range(participants)],
        "checkpoints": [
            {
                "version": 2, "round": r, "sha256": f"{r * 2654435761 % 2**128:064x}", "bytes": 11_000,
                "createdAt": 1_764_560_000_000 + r * 60_000,
                "metrics": {"training": {"loss": 2 / (r + 1)}, "validation": {"accuracy": 1 - 1 / (r + 2)}},
            }
            for r in range(rounds)
        ],
    }).encode()  # fmt: skip


def _participant(number: int, step: int) -> dict[str, Any]:
    turn = (step + number) // 5
    return {
        "id": f"p{number}", "name": f"laptop {number}", "local": number == 0, "status": "joined",
        "lastSeenAt": 1_764_565_200_000 + step * 2000 + number * 37, "stale": False,
        "execution": {
            "requestedBackend": "webgpu", "backend": "webgpu" if number % 3 else "wasm", "gpuAvailable": number % 3 > 0,
            "fallbackReason": None if number % 3 else "requestDevice failed: max_buffer_size is better than allowed",
            "browser": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/143.0.0.0 Safari/537.36",
            "workers": 2, "stage": ("downloading", "training", "uploading")[turn % 3], "stageSeq": turn,
            "stageDurationsMs": {"downloading": 120 + number, "training": 9000 + turn * 7919 % 997, "uploading": 210},
            "stageStartedAt": 1_764_565_200_000 + turn * 10_000,
            "assignment": {"id": f"a-{step // 30}-{number}", "round": step // 30, "units": 64},
            "batch": {"size": 32, "localSteps": 20},
            "computeOnlySamplesPerSecond": 100 + (step * 7919 + number * 104_729) % 997 / 10,
            "modelSha256": f"{11:064x}", "shaderSha256": f"{12:064x}",
        },
    }  # fmt: skip
