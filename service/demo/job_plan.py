"""What each of the demo's three jobs is: its aggregation, its rounds, and what happens in it."""

from typing import Any, Literal

import msgspec

from service.demo.incidents import EVERYTHING, MEMBERSHIP, Incidents
from service.demo.training import LocalTraining
from service.domain.aggregation import FedAdam, FedAvg, FedAvgM, Rule

SITE = "https://lab.example"
PARTICIPANTS = ("p1", "p2", "p3", "p4", "p5", "p6")
WANTS_GPU = "p4"
"""The participant that asks for a GPU, with a limit that no device has."""


class JobPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One job from its creation to its last round. Rounds up to `format_one_rounds` are saved as weights only."""

    id: str
    rule: Rule
    incidents: Incidents = MEMBERSHIP
    rounds: int = 12
    training: LocalTraining = LocalTraining()
    format_one_rounds: int = 0
    snapshot_interval_ms: int = 250
    stale_after_ms: int = 1000

    @property
    def aggregation(self) -> str:
        """FedAvg, FedAvgM or FedAdam."""
        return type(self.rule).__name__

    def checkpoint_format(self, number: int) -> Literal[1, 2]:
        """In which format the checkpoint of a round is saved."""
        return 1 if number <= self.format_one_rounds else 2

    def settings(self) -> dict[str, Any]:
        """The job's settings as its pages show them."""
        rule_settings = {name: getattr(self.rule, name) for name in self.rule.__struct_fields__}
        return {
            "epochs": self.rounds, "aggregation": self.aggregation,
            "aggregationSettings": {**rule_settings, "formula": self.rule.formula},
            "localTraining": msgspec.to_builtins(self.training),
            "snapshotIntervalMs": self.snapshot_interval_ms, "staleAfterMs": self.stale_after_ms,
        }  # fmt: skip


JOBS = (
    JobPlan(id="digits-fedavg", rule=FedAvg(), incidents=EVERYTHING, format_one_rounds=3),
    JobPlan(id="digits-fedavgm", rule=FedAvgM(momentum=0.7, rate=1.0)),
    JobPlan(id="digits-fedadam", rule=FedAdam(eta=0.05, beta_1=0.9, beta_2=0.99, tau=1e-3, correction="t+1")),
)
