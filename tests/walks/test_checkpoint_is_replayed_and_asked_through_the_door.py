"""The walk of a checkpoint: archived, replayed and run on inputs of one's own, all through the public door."""

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from service.demo.service_process import ServiceProcess
from tests.replay.package import demo_job


def put_all(url: str) -> str:
    """Archives a whole package with its checkpoint; the checkpoint's digest."""
    job = demo_job()
    parts = {
        "module": job.module, "shader-archive": job.shader_archive, "wasm": job.wasm, "validation": job.validation,
        "checkpoint": job.checkpoint,
    }  # fmt: skip
    for role, data in parts.items():
        httpx.post(f"{url}/v1/jobs/j1/artifacts", params={"role": role, "round": 1}, content=data).raise_for_status()
    return job.checkpoint_sha256


def wait_for_verdict(url: str, asked: dict[str, Any]) -> dict[str, Any]:
    known = {"wait_for": asked["requested_position"]}
    while True:
        replay: dict[str, Any] = httpx.get(f"{url}/v1/replays/{asked['id']}", params=known).json()
        if replay["state"] == "judged":
            return replay
        time.sleep(0.05)  # another process judges: there is nothing to wait on but its answer


def test_three_engines_agree_and_the_outputs_can_be_asked_for(start: Callable[[], ServiceProcess]) -> None:
    url = start().url
    sha256 = put_all(url)
    for engine in ("auto", "reference", "wasm"):
        asked = httpx.post(f"{url}/v1/checkpoints/{sha256}/replays", json={"engine": engine})
        assert asked.status_code == 202
        replay = wait_for_verdict(url, asked.json())
        assert replay["verdict"] == "reproduced", replay["result"]
        assert replay["result"]["engine"] in ({"gpu", "reference"} if engine == "auto" else {engine})
    ask = f"{url}/v1/checkpoints/{sha256}/infer"
    rows = np.linspace(0, 16, 128, dtype="<f4").reshape(2, 64)
    by_json = httpx.post(ask, json={"inputs": {"image": rows.tolist()}}, timeout=60)
    assert by_json.status_code == 200, by_json.text
    assert np.shape(by_json.json()["outputs"]["logits"]) == (2, 10)
    assert by_json.json()["verdict"] == "reproduced"
    body = io.BytesIO()
    np.save(body, rows, allow_pickle=False)
    npy = {"content-type": "application/x-npy", "accept": "application/x-npy"}
    by_npy = httpx.post(ask, content=body.getvalue(), headers=npy, params={"engine": "wasm"}, timeout=60)
    logits = np.load(io.BytesIO(by_npy.content), allow_pickle=False)
    np.testing.assert_allclose(logits, by_json.json()["outputs"]["logits"], rtol=1e-4, atol=1e-4)
    wrong = httpx.post(ask, json={"inputs": {"image": [[1.0, 2.0]]}}, timeout=60)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "inference_refused")
    assert wrong.json()["reason_code"] == "inputs_do_not_fit"
    unknown = httpx.post(f"{url}/v1/checkpoints/{'0' * 64}/infer", json={"inputs": {}})
    assert unknown.json()["reason_code"] == "no_checkpoint"


def test_the_command_line_runs_a_checkpoint_on_inputs_of_ones_own(
    start: Callable[[], ServiceProcess], tmp_path: Path
) -> None:
    url = start().url
    sha256 = put_all(url)
    np.save(tmp_path / "rows.npy", np.ones((3, 64), "<f4"), allow_pickle=False)
    words = [sys.executable, "-m", "service.cli", "infer", sha256, "--inputs", str(tmp_path / "rows.npy"), "--url", url]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    subprocess.run([*words, "--out", str(tmp_path / "out.npy")], capture_output=True, check=True)
    saved = np.load(tmp_path / "out.npy", allow_pickle=False)
    np.testing.assert_allclose(saved, json.loads(printed)["outputs"]["logits"], rtol=1e-6)
