"""Flags that show only over several snapshots of a participant's own page: its rhythm, and who writes under its id.

Pure: a trace and a step give the next trace and what holds. See docs/events.md for the rules in words.
"""

from typing import Any

import msgspec

from service.domain import lens
from service.projections.flag_rules import Checked, Finding
from service.projections.participants import Said, is_gone
from service.projections.step import Step
from service.projections.thresholds import Thresholds

WRITERS_KEPT = 4
THROTTLED_GAPS = 2


class Writer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A recorder that spoke as the own page of a participant, when it last did so."""

    recorder: str
    position: int
    heard_us: int


class Trace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of one participant's own page: who spoke in turn, and the snapshots that ended a long gap."""

    writers: tuple[Writer, ...] = ()
    throttled: tuple[int, ...] = ()


def follow(trace: Trace, step: Step, participant: str) -> tuple[Trace, list[Checked], list[Finding]]:
    """The trace after one snapshot of the participant's own page, and what holds now."""
    was, seen = step.people_before.seen.get(participant), step.people.seen[participant]
    own, before = seen.own, was.own if was else None
    if own is None or own.position != step.observed.position:
        return trace, [], []
    if goes_on(trace, step, participant):
        return trace, [], []
    writers = _took_turn(trace.writers, before, own)
    throttled = _throttled(trace.throttled, before, own, step.thresholds)
    checked = [
        _checked("two-writers-one-id", participant, _two_writers(writers, step.limit_us)),
        _checked("throttled-tab", participant, throttled if len(throttled) >= THROTTLED_GAPS else ()),
    ]
    late = []
    if was is not None and is_gone(was) and is_gone(seen):
        evidence = tuple(p for p in (seen.status_position, own.position) if p is not None)
        late.append(Finding("late-report", participant, "", evidence, {"why": "reported after it left"}))
    return Trace(writers, throttled), checked, late


def _checked(name: str, participant: str, evidence: tuple[int, ...]) -> Checked:
    finding = Finding(name, participant, "", evidence, {}) if evidence else None
    return Checked(name, participant, "", finding)


def goes_on(trace: Trace, step: Step, participant: str) -> bool:
    """Whether one writer is all that is remembered, and it goes on at its pace: what most snapshots do."""
    was, now = step.people_before.seen.get(participant), step.people.seen.get(participant)
    if was is None or now is None or was.own is None or now.own is None or is_gone(now):
        return False
    pause_us = now.own.recorded_at_us - was.own.recorded_at_us
    if pause_us >= step.thresholds.throttled_gap_us - step.thresholds.throttled_tolerance_us or trace.throttled:
        return False
    return len(trace.writers) == 1 and trace.writers[0].recorder == now.own.recorder


def _took_turn(writers: tuple[Writer, ...], before: Said | None, now: Said) -> tuple[Writer, ...]:
    """The last writers in turn; who is replaced keeps the last time it was heard."""
    if before is not None:
        writers = (*writers[:-1], Writer(before.recorder, before.position, before.recorded_at_us))
    if writers and writers[-1].recorder == now.recorder:
        writers = writers[:-1]
    return (*writers, Writer(now.recorder, now.position, now.recorded_at_us))[-WRITERS_KEPT:]


def _two_writers(writers: tuple[Writer, ...], limit_us: int) -> tuple[int, ...]:
    """Two recorders that took turns at least twice, the other one heard within the limit (F32)."""
    if len(writers) < WRITERS_KEPT:
        return ()
    first, second, third, fourth = writers
    takes_turns = first.recorder == third.recorder and second.recorder == fourth.recorder
    is_recent = fourth.heard_us - third.heard_us < limit_us
    return (third.position, fourth.position) if takes_turns and is_recent else ()


def _throttled(
    throttled: tuple[int, ...], before: Said | None, now: Said, thresholds: Thresholds
) -> tuple[int, ...]:  # fmt: skip
    """Positions of the last snapshots that each ended a gap of about a minute in which work went on (F31)."""
    if before is None or before.recorder != now.recorder:
        return ()
    gap_us = now.recorded_at_us - before.recorded_at_us
    if abs(gap_us - thresholds.throttled_gap_us) > thresholds.throttled_tolerance_us or not _has_progress(before, now):
        return ()
    return (*throttled, now.position)[-THROTTLED_GAPS:]


def _has_progress(before: Said, now: Said) -> bool:
    return lens.moved_on(lens.marker(before.word), lens.marker(now.word)) or _speed(before) != _speed(now)


def _speed(said: Said) -> Any:
    return lens.execution_of(said.word).speed
