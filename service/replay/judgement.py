"""The words of a replay's result: verdict, adapter, differences, metrics side by side. Records; nothing is decided.

`result_document` is the one way from a Judgement to the `result` of a `replay.judged` event (docs/replay.md).
"""

import math
from typing import Any, Literal

import msgspec

from service.domain.events import Verdict
from service.domain.facts import tag_number

EngineName = Literal["gpu", "reference", "wasm"]


class Adapter(msgspec.Struct, frozen=True):
    """A GPU adapter as its driver names it. `loop_budget` is `truncated` when long loops end early without an error."""

    name: str
    type: str
    backend: str
    driver: str
    is_software: bool
    loop_budget: Literal["full", "truncated"]


class Place(msgspec.Struct, frozen=True):
    """Where the largest difference is: the output's name and the index of the element."""

    output: str
    index: tuple[int, ...]


class Tolerance(msgspec.Struct, frozen=True):
    """Largest accepted difference: relative to max|reference| of an output, and who set it."""

    max_relative: float
    source: Literal["shader archive", "default"]


class Labels(msgspec.Struct, frozen=True):
    """How many rows have the same largest output as the reference's."""

    equal: int
    of: int


class MetricFound(msgspec.Struct, frozen=True):
    """A metric of the module beside what was recorded. `recomputed` None has its `reason`; so has `recorded` None."""

    key: str
    label: str
    direction: str
    kind: str | None
    recorded: float | None
    recorded_by: Literal["checkpoint", "state"] | None
    recomputed: float | None
    difference: float | None
    tolerance: float | None
    is_equal: bool | None
    reason: str | None


class Agreement(msgspec.Struct, frozen=True):
    """Outputs held against the reference's, all outputs together. `worst_ratio` is error over accepted error."""

    max_abs_error: float
    max_relative_error: float
    worst_ratio: float
    where: Place | None
    labels: Labels | None


class Rows(msgspec.Struct, frozen=True):
    """How many rows were run, in how many parts of at most how many rows."""

    rows: int
    parts: int
    rows_per_part: int


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a replay. What could not be known is None, and `reason` says why the verdict is what it is."""

    verdict: Verdict
    code: str
    reason: str | None = None
    engine: EngineName | None = None
    engine_asked: str = "auto"
    engine_reason: str | None = None
    adapter: Adapter | None = None
    libraries: dict[str, str] = {}
    digests: dict[str, str | None] = {}
    tolerance: Tolerance | None = None
    max_abs_error: float | None = None
    max_relative_error: float | None = None
    where: Place | None = None
    labels: Labels | None = None
    judged_against: Literal["reference float64", "recorded metrics"] | None = None
    metrics: list[MetricFound] = []
    non_finite: dict[str, dict[str, int]] = {}
    unwritten: dict[str, int] = {}
    output_sha256: dict[str, str] = {}
    batch: Rows | None = None
    timings_ms: dict[str, float] = {}
    diagnostics: str | None = None


class ReplayEnded(Exception):
    """A replay that ends before outputs can be compared; it carries the verdict, a stable code and a sentence."""

    def __init__(self, verdict: Verdict, code: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict: Verdict = verdict
        self.code = code
        self.reason = reason


class DeviceLost(Exception):
    """The GPU's device is gone; the process that held it should end."""


def cannot_run(code: str, reason: str) -> ReplayEnded:
    """Something is missing or broke on the way: another try, with what is named, may work."""
    return ReplayEnded("cannot-run", code, reason)


def refused(code: str, reason: str) -> ReplayEnded:
    """What was given is malformed, is not what its digest says, or wants more than it may have."""
    return ReplayEnded("refused", code, reason)


def result_document(judgement: Judgement) -> dict[str, Any]:
    """The `result` of `replay.judged`: everything but the verdict, with non-finite numbers as tags."""
    document: dict[str, Any] = _tagged(msgspec.to_builtins(judgement))
    del document["verdict"]
    return document


def _tagged(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else tag_number(value)
    if isinstance(value, dict):
        return {key: _tagged(item) for key, item in value.items()}
    return [_tagged(item) for item in value] if isinstance(value, list | tuple) else value
