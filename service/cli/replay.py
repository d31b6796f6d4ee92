"""`retrace replay JOB`: run archived checkpoints again through a running service, wait for the verdicts, print them.

The service judges and records; this command asks over HTTP, so it works from anywhere and never opens the store.
Exit code 1 when a checkpoint deviates or was refused, 3 when one could not be run.
"""

import argparse
import time
from typing import Any

import httpx
from rich.progress import Progress

from service.cli.options import add_json
from service.cli.output import notices, print_json, print_table
from service.errors import CheckpointNotFound, InvalidField, RetraceError, Unavailable
from service.settings import load_settings

LOOK_EVERY_S = 0.2
ENGINES = ("auto", "gpu", "cpu", "reference", "wasm")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", help="the job's id")
    parser.add_argument("--round", default="latest", help="a round, `latest` or `all` (default: latest)")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="how to run (default: auto)")
    parser.add_argument("--again", action="store_true", help="run again what was judged before")
    parser.add_argument("--url", help="the service (default: http://127.0.0.1:7400)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    url = arguments.url or f"http://127.0.0.1:{load_settings().port}"
    with httpx.Client(base_url=url, timeout=60) as client:
        found = _judge(client, arguments)
    if arguments.json:
        print_json(found)
    else:
        _print(arguments.job, found)
    verdicts = {replay["verdict"] for replay in found}
    return 1 if verdicts & {"deviates", "refused"} else 3 if "cannot-run" in verdicts else 0


def _judge(client: httpx.Client, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    wanted = {"engine": arguments.engine, "again": arguments.again}
    asked = [
        _sent(client, "POST", f"/v1/checkpoints/{sha256}/replays", json=wanted)
        for sha256 in _checkpoints(client, arguments.job, arguments.round)
    ]
    with Progress(console=notices) as progress:
        return [_wait(client, replay) for replay in progress.track(asked, description="judging")]


def _checkpoints(client: httpx.Client, job: str, which: str) -> list[str]:
    """Digests of the archived checkpoints that were asked for, by round."""
    if which == "all":
        found = list(_pages(client, f"/v1/jobs/{job}/checkpoints", "checkpoints"))
    elif which == "latest" or which.isdecimal():
        found = [_sent(client, "GET", f"/v1/jobs/{job}/checkpoints/{which}")["checkpoint"]]
    else:
        raise InvalidField(f"--round: got {which!r}, wanted a number, latest or all", path="round")
    digests = [checkpoint["sha256"] for checkpoint in found if checkpoint and checkpoint["archived"]]
    if not digests:
        raise CheckpointNotFound(f"job {job} has no archived checkpoint for --round {which}")
    return digests


def _pages(client: httpx.Client, path: str, name: str) -> Any:
    cursor: dict[str, str] = {}
    while True:
        page = _sent(client, "GET", path, params=cursor)
        yield from page[name]
        if page["next"] is None:
            return
        cursor = {"cursor": page["next"]}


def _wait(client: httpx.Client, asked: dict[str, Any]) -> dict[str, Any]:
    while True:
        known = {"wait_for": asked["requested_position"]}
        replay: dict[str, Any] = _sent(client, "GET", f"/v1/replays/{asked['id']}", params=known)
        if replay["verdict"] is not None:
            return replay
        time.sleep(LOOK_EVERY_S)


def _sent(client: httpx.Client, method: str, path: str, **sent: Any) -> Any:
    try:
        answer = client.request(method, path, **sent)
    except httpx.TransportError as error:
        raise Unavailable(f"no service at {client.base_url}: {error}; start `retrace serve` or give --url") from None
    if answer.is_error:
        problem = answer.json()
        refusal = RetraceError(problem["detail"], **{k: v for k, v in problem.items() if k not in ("detail", "code")})
        refusal.code = problem["code"]  # type: ignore[misc]
        raise refusal
    return answer.json()


def _print(job: str, found: list[dict[str, Any]]) -> None:
    cells = []
    for replay in found:
        result = replay["result"]
        adapter = result.get("adapter") or {}
        cells.append(
            (replay["round"], replay["verdict"], result.get("engine"), adapter.get("name"),
             result.get("max_abs_error"), result.get("reason") or result.get("engine_reason"))
        )  # fmt: skip
    columns = ("round", "verdict", "engine", "adapter", "largest difference", "reason")
    print_table(f"Replays of {job}", columns, cells)
