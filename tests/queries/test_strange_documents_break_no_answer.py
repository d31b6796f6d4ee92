"""Whatever a page reports, every view answers: what cannot be read is unavailable with a reason, or set aside."""

from typing import Any

import pytest

from tests.projections.tape import participant, state
from tests.queries.bench import Bench

HUGE = 10**30
STRANGE: list[Any] = [
    state(
        participant("p1", local=True, stageSeq=HUGE, workers=HUGE, assignment={"id": HUGE}),
        round_number=HUGE,
        settings={"epochs": HUGE, "staleAfterMs": HUGE},
        checkpoints=[{"round": HUGE, "sha256": 3, "bytes": HUGE, "metrics": {"training": {"a": HUGE, "b": 10**400}}}],
    ),
    {"role": 3, "job": {"state": [], "settings": None}, "participants": None, "checkpoints": None},
    {"job": {"state": {"phase": {}, "round": True}}, "participants": [{"id": 1.5}]},
    {"participants": [{"id": "p1", "execution": 3, "status": 4, "lastSeenAt": "x"}], "checkpoints": [{"metrics": 3}]},
    {"checkpoints": [{"round": 1.5, "metrics": {"training": {"x": {"non_finite": "Nope"}}, "validation": []}}]},
    {
        "job": {"metricLabels": [{"key": "a", "direction": "max"}, 3, {"key": 4}], "createdAt": -1},
        "invitations": [{"status": "pending"}, 4],
        "transfer": [],
        "execution": {"stageSeq": "x"},
        "participants": [
            {"id": "p1", "local": True, "execution": {"stageDurationsMs": {"a": "x", "b": 5, "c": "NaN"}}},
        ],
    },
    3,
    None,
    [],
    "text",
]
PATHS = (
    "/v1/jobs", "/v1/jobs/j1", "/v1/jobs/j1/participants", "/v1/jobs/j1/timeline", "/v1/jobs/j1/diagnostics",
    "/v1/jobs/j1/commands", "/v1/jobs/j1/metrics", "/v1/jobs/j1/checkpoints", "/v1/jobs/j1/checkpoints/latest",
    "/v1/jobs/j1/checkpoints/best?metric=a&direction=min&split=training", "/v1/jobs/j1/recorders",
    "/v1/jobs/j1/replays", "/v1/jobs/j1/events", "/v1/events/2",
)  # fmt: skip


@pytest.mark.parametrize("document", STRANGE, ids=lambda document: str(document)[:40])
def test_every_view_answers_whatever_was_reported(bench: Bench, document: Any) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    bench.record("state.reported", document)
    bench.record("state.reported", state(participant("p1", local=True)))
    for path in PATHS:
        response = bench.client.get(path)
        assert response.status_code == 200, f"{path}: {response.text}"


@pytest.mark.parametrize("kind", ["command.called", "command.returned", "recorder.started", "replay.judged"])
def test_events_that_break_their_shape_are_set_aside(bench: Bench, kind: str) -> None:
    bench.record("state.reported", state(participant("p1", local=True)))
    bench.record(kind, {"nothing": "expected"})
    for path in PATHS:
        assert bench.client.get(path).status_code == 200, path
