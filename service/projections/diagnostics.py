"""The diagnostics view: named flags with evidence positions, opened and closed by what pages report.

`flag_rules`, `flag_traces` and `disagreements` say when a flag holds; this module follows it through time. A *state*
flag is open while its rule holds and closes at the first snapshot that shows it does not. An *instant* flag opens and
closes at one event. Open flags are part of the fold; closed ones are rows, known since the event that closed them.
"""

from typing import Any

import msgspec

from service.projections import disagreements, flag_traces
from service.projections.disagreements import Suspect
from service.projections.flag_rules import Checked, Finding, has_news, instant_findings, state_findings
from service.projections.flag_traces import Trace
from service.projections.projection import Change, Observed
from service.projections.step import Step

NAME = "diagnostics"

_CLOSED = """INSERT INTO flags (stream, site, name, participant, subject, opened_position, opened_us, closed_position,
 closed_us, evidence, detail) VALUES (?,?,?,?,?,?,?,?,?,?,?)"""


class OpenFlag(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A flag that holds since an event. `evidence` are the positions that show it."""

    name: str
    participant: str
    subject: str
    position: int
    opened_us: int
    evidence: tuple[int, ...]
    detail: dict[str, Any]


class DiagnosticsView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Open flags by key, and what the rules remember."""

    flags: dict[str, OpenFlag] = {}
    traces: dict[str, Trace] = {}
    suspects: dict[str, Suspect] = {}


def fold(view: DiagnosticsView, step: Step) -> tuple[DiagnosticsView, list[Change]]:
    """The open flags after one `state.reported`, and rows of those that closed."""
    observed = step.observed
    if _is_quiet(view, step):
        return view, []
    suspects, differing = disagreements.follow(view.suspects, step)
    traces, own_checked, instants = _follow_own(view.traces, step)
    checked = [*state_findings(step), *differing, *own_checked]
    flags, closed = _moved(view.flags, checked, observed)
    happened = [_opened(finding, observed) for finding in (*instant_findings(step), *instants)]
    return DiagnosticsView(flags, traces, suspects), [_row(flag, observed) for flag in (*closed, *happened)]


def _is_quiet(view: DiagnosticsView, step: Step) -> bool:
    """Whether the only page of the job says what it said before, nothing is open, and it keeps its pace."""
    own = step.page.own_participant
    if view.flags or len(step.job.pages) > 1 or has_news(step):
        return False
    return own is None or flag_traces.goes_on(view.traces.get(own, Trace()), step, own)


def overtaken(observed: Observed) -> list[Change]:
    """The row of a snapshot that arrived after a later one of its recorder; it changed no view."""
    late = Finding("late-report", "", observed.event.source.recorder, (observed.position,), {"why": "overtaken"})
    return [_row(_opened(late, observed), observed)]


def _follow_own(traces: dict[str, Trace], step: Step) -> tuple[dict[str, Trace], list[Checked], list[Finding]]:
    own = step.page.own_participant
    if own is None or own not in step.people.seen:
        return traces, [], []
    trace, checked, instants = flag_traces.follow(traces.get(own, Trace()), step, own)
    return traces if trace == traces.get(own) else {**traces, own: trace}, checked, instants


def _moved(
    flags: dict[str, OpenFlag], checked: list[Checked], observed: Observed
) -> tuple[dict[str, OpenFlag], list[OpenFlag]]:  # fmt: skip
    """Open what holds and was not open, close what was open and does not hold."""
    after = flags
    closed: list[OpenFlag] = []
    for name, participant, subject, finding in checked:
        if finding is None and not after:
            continue
        key = f"{name}\n{participant}\n{subject}"
        if finding is not None and key not in after:
            after = {**after, key: _opened(finding, observed)}
        elif finding is None and key in after:
            closed.append(after[key])
            after = {other: flag for other, flag in after.items() if other != key}
    return after, closed


def _opened(finding: Finding, observed: Observed) -> OpenFlag:
    name, participant, subject, evidence, detail = finding
    return OpenFlag(name, participant, subject, observed.position, observed.recorded_at_us, evidence, detail)


def _row(flag: OpenFlag, observed: Observed) -> Change:
    event = observed.event
    return _CLOSED, (
        event.stream, event.source.site, flag.name, flag.participant, flag.subject, flag.position, flag.opened_us,
        observed.position, observed.recorded_at_us, msgspec.json.encode(flag.evidence).decode(),
        msgspec.json.encode(flag.detail).decode(),
    )  # fmt: skip
