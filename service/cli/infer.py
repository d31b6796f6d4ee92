"""`retrace infer SHA256 --inputs FILE`: run an archived checkpoint on inputs of one's own, through a running service.

JSON or .npy in, JSON or .npy out. Nothing is recorded. Exit code 1 when the outputs differ from the float64 reference.
"""

import argparse
import sys
from pathlib import Path

import httpx

from service.cli.options import add_json
from service.cli.output import notices
from service.errors import RetraceError, SetupError, Unavailable
from service.replay.ad_hoc import JSON, NPY
from service.replay.plan import ENGINES_ASKED
from service.settings import load_settings


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="SHA256", help="digest of an archived checkpoint")
    parser.add_argument("--inputs", type=Path, required=True, help='a .npy file, or JSON {"inputs": {name: rows}}')
    parser.add_argument("--out", type=Path, help="where the outputs go: .npy or .json (default: JSON on screen)")
    parser.add_argument("--engine", choices=ENGINES_ASKED, default="auto", help="how to run (default: auto)")
    parser.add_argument("--url", help="the service (default: http://127.0.0.1:7400)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    url = arguments.url or f"http://127.0.0.1:{load_settings().port}"
    wants_npy = arguments.out is not None and arguments.out.suffix == ".npy"
    headers = {
        "content-type": NPY if arguments.inputs.suffix == ".npy" else JSON, "accept": NPY if wants_npy else JSON,
    }  # fmt: skip
    try:
        body = arguments.inputs.read_bytes()
        answer = httpx.post(
            f"{url}/v1/checkpoints/{arguments.checkpoint}/infer", content=body, headers=headers,
            params={"engine": arguments.engine}, timeout=120,
        )  # fmt: skip
    except httpx.TransportError as error:
        raise Unavailable(f"no service at {url}: {error}; start `retrace serve` or give --url") from None
    except OSError as error:
        raise SetupError(f"{arguments.inputs} cannot be read: {error.strerror}") from None
    if answer.is_error:
        problem = answer.json()
        refusal = RetraceError(problem["detail"], **{k: v for k, v in problem.items() if k not in ("detail", "code")})
        refusal.code = problem["code"]  # type: ignore[misc]
        raise refusal
    if arguments.out is None:
        sys.stdout.write(answer.text + "\n")
    else:
        arguments.out.write_bytes(answer.content)
        notices.print(f"{arguments.out}: {len(answer.content)} bytes")
    verdict = answer.headers.get("retrace-verdict") if wants_npy else answer.json()["verdict"]
    return 1 if verdict == "deviates" else 0
