"""The `retrace` command: one file in this folder per thing one can do. Commands parse, call a room, and print.

Exit codes: 0 done and nothing wrong found; 1 done, and what was looked at is wrong (a verification fails, a replay
deviates); 2 asked wrongly (unknown option, no such job, a set-up that cannot work); 3 cannot be done now.
"""

import argparse
import sys
from importlib import import_module

from service.cli.output import print_error
from service.errors import RetraceError, Unavailable

OK, WRONG, ASKED_WRONGLY, CANNOT_NOW = 0, 1, 2, 3

COMMANDS = {
    "serve": "serve a data folder over HTTP",
    "demo": "record a real federated training, look back at it, replay it, verify its log",
    "ask": "answer one of the shipped questions about the history",
    "replay": "run archived checkpoints again and say whether they give what was recorded",
    "infer": "run an archived checkpoint on inputs of your own",
    "verify": "derive log, digests and artifacts again and say what does not fit",
    "module": "check or pack a module package, or make one from an ONNX graph",
    "rebuild": "fold the views and the lake anew from the stored events",
}
"""Name and summary of each command; its code is `service.cli.<name>`."""


def main(words: list[str] | None = None) -> int:
    """Run one command. Returns its exit code; refusals are printed with their stable code, never as a traceback."""
    words = sys.argv[1:] if words is None else words
    arguments = _parser(words).parse_args(words)
    command = import_module(f"service.cli.{arguments.command}")
    try:
        return int(command.run(arguments))
    except RetraceError as error:
        print_error(error, as_json=getattr(arguments, "json", False))
        return CANNOT_NOW if isinstance(error, Unavailable) else ASKED_WRONGLY
    except KeyboardInterrupt:
        return 130


def _parser(words: list[str]) -> argparse.ArgumentParser:
    """Every command by name; options only of those named. A command's module loads the rooms it needs: seconds."""
    parser = argparse.ArgumentParser(prog="retrace", description="The flight recorder of distributed neural training.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary)
        if name in words:
            import_module(f"service.cli.{name}").configure(subparser)
    return parser
