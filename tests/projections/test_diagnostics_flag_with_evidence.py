"""F31, F32, F33 and DESIGN §6: flags say what does not fit, with the positions that show it, and close when it fits."""

from typing import Any

import pytest

from service.projections import Views
from service.projections.flags import Flag, flags_as_of
from service.projections.jobs import stale_limit_us
from service.projections.projection import JobAsOf
from service.projections.timeline import intervals_as_of
from tests.projections.tape import START_US, S, Tape, participant, state

SITE = "https://lab.example"


def flags(views: Views, tape: Tape, up_to: int | None = None) -> list[Flag]:
    """Every flag of the job as of a position, its `recorded_at` being now."""
    views.apply(tape.events)
    position = len(tape.events) if up_to is None else up_to
    key = JobAsOf("job-j1", SITE, position)
    with views.reading() as connection:
        stream = views.fold_as_of(connection, "job-j1", position, tape.read)
        assert stream is not None
        fold = stream.sites[SITE]
        moment = (tape.events[position - 1].recorded_at_us, stale_limit_us(fold.job, 10 * S))
        line = intervals_as_of(connection, key, fold.timeline, fold.participants, moment)
        return flags_as_of(connection, key, fold.job, fold.diagnostics, line)


def named(found: list[Flag], name: str) -> list[Flag]:
    return [flag for flag in found if flag.name == name]


def own(at_s: float, tape: Tape, recorder: str = "rec-owner", **execution: Any) -> int:
    """A snapshot of p1's own page."""
    seen_ms = execution.pop("seen_ms", int(at_s * 1000))
    document = state(participant("p1", local=True, seen_ms=seen_ms, **execution))
    return tape.state(document, at_s=at_s, recorder=recorder).position


def test_cpu_without_a_reason_is_silent(views: Views, tape: Tape) -> None:
    opened = own(0, tape, backend="wasm-cpu", gpuAvailable=True, fallbackReason=None)
    closed = own(2, tape, backend="wasm-cpu", gpuAvailable=True, fallbackReason="requestAdapter returned null")
    [flag] = named(flags(views, tape), "silent-cpu")
    assert (flag.participant, flag.evidence, flag.closed_position) == ("p1", (opened,), closed)
    [then] = named(flags(views, tape, up_to=opened), "silent-cpu")
    assert then.closed_us is None


def test_cpu_that_was_asked_for_is_not_silent(views: Views, tape: Tape) -> None:
    own(0, tape, requestedBackend="wasm-cpu", backend="wasm-cpu", gpuAvailable=True)
    assert not flags(views, tape)


def test_absent_gpu_flag_is_not_false(views: Views, tape: Tape) -> None:
    own(0, tape, backend="webgpu", gpuAvailable=None)
    assert not flags(views, tape)
    own(2, tape, backend="webgpu", gpuAvailable=False)
    [flag] = named(flags(views, tape), "contradiction")
    assert (flag.subject, flag.detail) == ("gpu", {"backend": "webgpu", "gpu_available": False})


def test_lost_gpu_is_one_event(views: Views, tape: Tape) -> None:
    before = own(0, tape, backend="webgpu")
    lost = own(2, tape, backend=None, fallbackReason="device lost")
    own(4, tape, backend="wasm-cpu", fallbackReason="device lost")
    [flag] = named(flags(views, tape), "gpu-lost")
    assert flag.evidence == (before, lost)
    assert flag.detail == {"from": "webgpu", "to": None, "reason": "device lost"}


@pytest.mark.parametrize(("speed", "breaks"), [(100, 1), (500, 1), (501, 0)])
def test_speed_break_needs_the_ratio_and_the_same_backend(
    views: Views, tape: Tape, speed: float, breaks: int
) -> None:  # fmt: skip
    own(0, tape, computeOnlySamplesPerSecond=4000)
    own(2, tape, computeOnlySamplesPerSecond=speed)
    own(4, tape, computeOnlySamplesPerSecond=1, backend="webgpu-compat")
    assert len(named(flags(views, tape), "speed-break")) == breaks


def test_background_tab_is_throttled_and_not_lost(views: Views, tape: Tape) -> None:
    times = [*range(0, 31, 2), 90, 150, 210, 212, 214]
    positions = {at_s: own(at_s, tape, computeOnlySamplesPerSecond=1000 + at_s) for at_s in times}
    found = flags(views, tape)
    [throttled] = named(found, "throttled-tab")
    assert throttled.evidence == (positions[90], positions[150])
    assert throttled.closed_position == positions[212]
    stale = [((flag.opened_us - START_US) / S, flag.closed_position) for flag in named(found, "stale")]
    assert stale == [(40, positions[90]), (100, positions[150]), (160, positions[210])]


def test_minute_gap_without_progress_is_no_throttled_tab(views: Views, tape: Tape) -> None:
    for at_s in (0, 60, 120, 180):
        own(at_s, tape, seen_ms=5)
    assert not named(flags(views, tape), "throttled-tab")


def test_two_tabs_under_one_id_are_two_writers(views: Views, tape: Tape) -> None:
    for at_s in range(6):
        own(at_s, tape, recorder=("rec-a", "rec-b")[at_s % 2], workers=(1, 4)[at_s % 2])
    [flag] = named(flags(views, tape), "two-writers-one-id")
    assert (flag.participant, flag.evidence) == ("p1", (3, 4))


def test_reloaded_page_is_no_second_writer(views: Views, tape: Tape) -> None:
    for at_s in range(6):
        own(at_s, tape, recorder="rec-a" if at_s < 3 else "rec-b")
    assert not named(flags(views, tape), "two-writers-one-id")


def test_pages_contradict_only_when_the_difference_stands(views: Views, tape: Tape) -> None:
    guest = state(participant("p2", local=True), role="guest", phase="created")
    for at_s in range(0, 16, 2):
        own(at_s, tape)
        tape.state(guest, at_s=at_s + 1, recorder="rec-guest")
    before = named(flags(views, tape, up_to=10), "contradiction")
    [flag] = named(flags(views, tape), "contradiction")
    assert not before
    assert flag.subject == "phase by rec-guest"
    assert flag.detail == {"told": "created", "counts": "running"}
    assert flag.evidence == (2, 12)


def test_overtaken_snapshot_is_late_and_changes_nothing(views: Views, tape: Tape) -> None:
    tape.state(state(participant("p1", local=True), round_number=3), seq=3)
    tape.state(state(participant("p1", local=True), round_number=2), seq=2, at_s=1)
    found = flags(views, tape)
    assert [flag.detail for flag in named(found, "late-report")] == [{"why": "overtaken"}]


def test_report_after_leaving_is_late(views: Views, tape: Tape) -> None:
    left = {**participant("p2", seen_ms=9), "status": "left"}
    tape.state(state(participant("p1", local=True), participant("p2")), at_s=0)
    gone = tape.state(state(participant("p1", local=True), left), at_s=1).position
    own_page = state(participant("p2", local=True, seen_ms=12), role="guest")
    own_page["participants"][0]["status"] = None
    late = tape.state(own_page, at_s=2, recorder="rec-p2").position
    [flag] = named(flags(views, tape), "late-report")
    assert flag.evidence == (gone, late)


def test_counter_that_goes_back_is_a_reset(views: Views, tape: Tape) -> None:
    tape.state(state(participant("p1", local=True), round_number=12))
    tape.state(state(participant("p1", local=True), round_number=1))
    [flag] = named(flags(views, tape), "counter-reset")
    assert flag.detail == {"counter": "round", "from": 12, "to": 1}


def test_skewed_clock_is_flagged_and_liveness_is_not_touched(views: Views, tape: Tape) -> None:
    tape.state(state(participant("p1", local=True)), observed_us=START_US + 3600 * S)
    found = flags(views, tape)
    assert [flag.detail for flag in named(found, "clock-skew")] == [{"ahead_s": 3600}]
    assert not named(found, "stale")


def test_legacy_name_that_contradicts_is_flagged(views: Views, tape: Tape) -> None:
    tape.state(state(settings={"rounds": 10, "epochs": 12}))
    closed = tape.state(state(settings={"rounds": 12, "epochs": 12})).position
    [flag] = named(flags(views, tape), "epochs-conflict")
    assert (flag.detail, flag.closed_position) == ({"epochs": 12, "rounds": 10}, closed)


def test_refused_command_and_lost_events_and_nan_are_flagged(views: Views, tape: Tape) -> None:
    nan = [{"round": 1, "metrics": {"training": {"loss": {"non_finite": "NaN"}}, "validation": None}}]
    tape.state(state(checkpoints=nan))
    called = tape.add("command.called", {"name": "start"})
    error = {"name": "start", "outcome": "error", "error_code": "wrong_state", "error_message": "running"}
    tape.add("command.returned", error, causation_id=called.event.id)
    tape.state(state(checkpoints=nan), seq=9)
    found = {flag.name: flag for flag in flags(views, tape)}
    assert found["command-refused"].evidence == (2, 3)
    assert found["recorder-gap"].detail == {"first_seq": 4, "last_seq": 8}
    assert found["recorder-gap"].evidence == (3, 4)
    assert found["non-finite-metric"].detail["value"] == {"non_finite": "NaN"}
