"""`retrace verify`: derive the log, every digest and every artifact again, and say what does not fit.

Works beside a running service and changes nothing. With `--since FILE` (a head that you kept, or `-` for standard
input) it also proves that today's log extends that head: without it, whoever holds the key could have made all of it
yesterday.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from service.audit.findings import Report
from service.cli.options import add_data, add_json, settings_from
from service.cli.output import answers, print_json
from service.errors import SetupError


def configure(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_json(parser)
    parser.add_argument("--since", metavar="FILE", help="a signed tree head that you kept earlier (- for stdin)")


def run(arguments: argparse.Namespace) -> int:
    from service.audit.verify import verify_folder

    report = verify_folder(settings_from(arguments), since=_remembered(arguments.since))
    if arguments.json:
        print_json({"is_verified": report.is_sound, **msgspec.to_builtins(report)})
    else:
        _print(report)
    return 0 if report.is_sound else 1


def _remembered(name: str | None) -> str | None:
    if name is None:
        return None
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise SetupError(f"--since {name}: {error.strerror}; wanted a file that holds a signed tree head") from None


def _print(report: Report) -> None:
    for finding in report.findings:
        answers.print(f"{finding.code}: {finding.sentence}", style="red", markup=False)
    if report.findings_count > len(report.findings):
        answers.print(f"… and {report.findings_count - len(report.findings)} more findings")
    looked_at = f"{report.events} events in {report.streams} streams, {report.artifacts} artifacts"
    head = "no signed head" if report.head_size is None else f"signed head of size {report.head_size}"
    kept = "" if report.since_size is None else f", extends the head you kept (size {report.since_size})"
    if report.is_sound:
        answers.print(f"verified: {looked_at}; log size {report.size}, root {report.root}; {head}{kept}")
    else:
        answers.print(
            f"NOT verified: {report.findings_count} findings over {looked_at}; log size {report.size}; {head}"
        )
