"""The walk of a checkpoint (docs/architecture.md): in by digest, inspected, listed, run again, its verdict recorded."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from service.artifacts.checkpoint_format import Checkpoint, Metrics, write_checkpoint
from service.artifacts.tensor_file import write_tensors
from service.demo.package_builder import build_package
from service.demo.service_process import ServiceProcess
from service.domain.canonical import sha256_hex

Weights = dict[str, Any]
JOB = "digits"


class Playground:
    """A running service with the demo's package, and a way to put checkpoints into it and to run them again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=60)
        self.package = build_package()
        generator = np.random.default_rng(7)
        self.images = generator.random((24, 64), dtype=np.float32)
        labels = generator.integers(0, 10, 24).astype(np.int32)
        self.weights: Weights = {
            parameter.name: generator.normal(0, 0.3, parameter.shape).astype(np.float32)
            for parameter in self.package.module.parameters
        }
        self.put("module", self.package.module_bytes)
        self.put("validation", write_tensors({"image": self.images, "labels": labels}))
        for role, data in (("shader-archive", self.package.shader_archive_bytes), ("wasm", self.package.wasm_bytes)):
            if data is not None:
                self.put(role, data)

    def put(self, role: str, data: bytes, **label: int) -> str:
        digest = sha256_hex(data)
        place = f"/v1/artifacts/{digest}"
        self.client.put(place, params={"role": role, "job": JOB, **label}, content=data).raise_for_status()
        return digest

    def put_checkpoint(self, number: int, weights: Weights, accuracy: float | None = None) -> str:
        metrics = None if accuracy is None else Metrics(training={}, validation={"accuracy": accuracy})
        checkpoint = Checkpoint(
            checkpoint_format=2, job=JOB, round=number, module_sha256=self.package.module_sha256, weights=weights,
            metrics=metrics,
        )  # fmt: skip
        return self.put("checkpoint", write_checkpoint(checkpoint), round=number)

    def ask(self, what: str) -> Any:
        """A view of the job, once it has everything that was put."""
        head = self.client.get("/health").json()["head"]
        return self.client.get(f"/v1/jobs/{JOB}/{what}", params={"wait_for": head}).json()

    def replay(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", "replay", JOB, *words, "--url", self.url, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def playground(start: Callable[[], ServiceProcess]) -> Iterator[Playground]:
    playground = Playground(start().url)
    yield playground
    playground.client.close()


def test_checkpoint_is_listed_inspected_and_reproduced(playground: Playground) -> None:
    digest = playground.put_checkpoint(1, playground.weights)

    listed = playground.ask("checkpoints/latest_usable")
    inspection = listed["checkpoint"]["archived"]["inspection"]
    assert listed["checkpoint"]["sha256"] == digest
    assert (inspection["checkpoint_format"], inspection["sizes"]["status"], inspection["nan"]) == (2, "match", 0)

    exit_code, [replay] = playground.replay("--engine", "reference")
    assert (exit_code, replay["verdict"]) == (0, "reproduced")
    assert replay["result"]["labels"] == {"equal": 24, "of": 24}
    event = playground.client.get(f"/v1/events/{replay['judged_position']}").json()
    assert (event["type"], event["data"]["verdict"]) == ("replay.judged", "reproduced")


def test_recorded_metric_that_does_not_come_out_deviates(playground: Playground) -> None:
    playground.put_checkpoint(1, playground.weights, accuracy=1.0)
    exit_code, [replay] = playground.replay("--engine", "reference")
    assert (exit_code, replay["verdict"]) == (1, "deviates")
    accuracy = next(metric for metric in replay["result"]["metrics"] if metric["key"] == "accuracy")
    assert accuracy["recorded"] == 1.0
    assert accuracy["recomputed"] != 1.0


def test_first_bad_round_is_named_and_is_never_the_latest_usable(playground: Playground) -> None:
    """F26: NaN enters in round 2; all three are kept, round 1 stays the latest usable."""
    spoiled = {name: array.copy() for name, array in playground.weights.items()}
    spoiled["dense1.weight"][0, 0] = np.nan
    playground.put_checkpoint(1, playground.weights)
    playground.put_checkpoint(2, spoiled)
    playground.put_checkpoint(3, {name: np.full_like(array, np.nan) for name, array in spoiled.items()})

    rows = playground.ask("checkpoints")["checkpoints"]
    assert [row["archived"]["inspection"]["nan"] for row in rows][:2] == [0, 1]
    assert [row["is_usable"] for row in rows] == [True, False, False]
    assert playground.ask("checkpoints/latest_usable")["checkpoint"]["round"] == 1

    _, [replay] = playground.replay("--round", "2", "--engine", "reference")
    assert replay["result"]["non_finite"], "the NaN must show in the replay, never as a plain zero"


def test_missing_module_is_named_with_the_way_to_attach_it(start: Callable[[], ServiceProcess]) -> None:
    playground = Playground(start().url)
    absent = "ab" * 32
    lonely = Checkpoint(checkpoint_format=1, job=JOB, round=1, module_sha256=absent, weights=playground.weights)
    playground.put("checkpoint", write_checkpoint(lonely), round=1)
    exit_code, [replay] = playground.replay("--engine", "reference")
    playground.client.close()
    assert (exit_code, replay["verdict"]) == (3, "cannot-run")
    assert absent in replay["result"]["reason"]
    assert "/v1/artifacts/" in replay["result"]["reason"]
