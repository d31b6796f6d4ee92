"""What coordinator and participants say to each other, as msgpack: one struct for each thing that can be said.

This is the demo's own training protocol. Retrace never sees it: what is recorded is what the pages report.
"""

from typing import Any

import msgspec

from service.demo.training import Scores


class _Message(msgspec.Struct, frozen=True, tag_field="says"):
    """A message names itself in the field `says`."""


# ---- coordinator to participant --------------------------------------------------------------------------------


class OpenJob(_Message, frozen=True, tag="open-job"):
    """A job begins for this participant. `view` is the published state so far; `leaves_after` the round it leaves."""

    job: str
    view: dict[str, Any]
    leaves_after: int | None = None


class View(_Message, frozen=True, tag="view"):
    """The published state: job, participants, checkpoints, as every page shows them."""

    view: dict[str, Any]


class Assign(_Message, frozen=True, tag="assign"):
    """Train the first `units` examples of your shard from the model `base_sha256`."""

    assignment_id: str
    round: int
    units: int
    base_sha256: str
    base_bytes: int


class Model(_Message, frozen=True, tag="model"):
    """The model that was asked for: a tensor file."""

    assignment_id: str
    weights: bytes


class Verdict(_Message, frozen=True, tag="verdict"):
    """What became of a result: accepted when `code` is None, else refused with code and sentence."""

    assignment_id: str
    code: str | None = None
    message: str | None = None


class CloseJob(_Message, frozen=True, tag="close-job"):
    """The job is over: stop its recorder and say so."""


class Shut(_Message, frozen=True, tag="shut"):
    """Nothing more will come: end the process."""


# ---- participant to coordinator --------------------------------------------------------------------------------


class Join(_Message, frozen=True, tag="join"):
    """This participant is in the job from now on."""

    name: str
    examples: int


class Report(_Message, frozen=True, tag="report"):
    """Where this participant stands; sent at each stage change and at the snapshot interval."""

    execution: dict[str, Any]


class Download(_Message, frozen=True, tag="download"):
    """Send me the model of this assignment."""

    assignment_id: str


class Result(_Message, frozen=True, tag="result"):
    """The whole model after local training (a tensor file), and its scores on the examples it was trained on."""

    assignment_id: str
    examples: int
    weights: bytes
    sha256: str
    training: Scores


class Failed(_Message, frozen=True, tag="failed"):
    """The assignment could not be carried out."""

    assignment_id: str
    kind: str
    message: str


class Leave(_Message, frozen=True, tag="leave"):
    """This participant takes no further part in the job."""


class Closed(_Message, frozen=True, tag="closed"):
    """Everything this participant recorded of the job was acknowledged: so many events."""

    events: int


ToParticipant = OpenJob | View | Assign | Model | Verdict | CloseJob | Shut
ToCoordinator = Join | Report | Download | Result | Failed | Leave | Closed

encode = msgspec.msgpack.Encoder().encode
decode_for_participant = msgspec.msgpack.Decoder(ToParticipant).decode
decode_for_coordinator = msgspec.msgpack.Decoder(ToCoordinator).decode
