"""`retrace demo`: a genuine federated training recorded through the public door, then everything found out about it."""

import argparse

from service.cli.options import add_data, settings_from


def configure(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--seed", type=int, default=7, help="seed of the training (default: 7)")


def run(arguments: argparse.Namespace) -> int:
    from service.demo.run import run_demo

    return run_demo(settings_from(arguments), arguments.seed)
