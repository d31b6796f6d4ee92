"""Old shapes of `data` read as today's: pure steps, one per (type, schema_version), applied on read.

Stored bytes never change, so a corrected step repairs every view by a rebuild. A step turns schema_version n into
n + 1, takes what it does not know unchanged, and never writes into the document it was given. A document that is newer
than the newest version known here is read as it is: readers ignore what they do not know.
"""

from collections.abc import Callable
from typing import Any

from service.domain.events import STATE_REPORTED

Upcaster = Callable[[Any], Any]


def upcast(event_type: str, schema_version: int, data: Any) -> Any:
    """`data` in the newest shape that is known of `event_type`. Of today's shape it comes back as it is."""
    step = STEPS.get((event_type, schema_version))
    while step is not None:
        data = step(data)
        schema_version += 1
        step = STEPS.get((event_type, schema_version))
    return data


def state_rounds_become_epochs(document: Any) -> Any:
    """state.reported 1 → 2: dataset passes are called `epochs`; `rounds` in the job's settings is their legacy name.

    When both are there and differ nothing is decided here: `rounds` stays, and the lens reports the conflict.
    The number of the aggregation round (`job.state.round`) is another thing and is not touched.
    """
    job = document.get("job") if isinstance(document, dict) else None
    settings = job.get("settings") if isinstance(job, dict) else None
    if not isinstance(job, dict) or not isinstance(settings, dict) or "rounds" not in settings:
        return document
    renamed = dict(settings)
    rounds = renamed.pop("rounds")
    if renamed.setdefault("epochs", rounds) != rounds:
        return document
    return {**document, "job": {**job, "settings": renamed}}


STEPS: dict[tuple[str, int], Upcaster] = {(STATE_REPORTED, 1): state_rounds_become_epochs}
"""Every step, by the type and schema_version that it reads."""
