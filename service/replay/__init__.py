"""Running the Playground again on archived checkpoints. Returns a verdict and appends nothing."""

from service.replay.engine import ReplayEngine
from service.replay.judgement import Judgement, result_document
from service.replay.plan import ReplayJob

__all__ = ["Judgement", "ReplayEngine", "ReplayJob", "result_document"]
