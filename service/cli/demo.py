"""`retrace demo`: a genuine federated training recorded through the public door, then everything found out about it."""

import argparse
import os

from service.cli.options import add_data, settings_from


def configure(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--seed", type=int, default=7, help="seed of the training (default: 7)")


def run(arguments: argparse.Namespace) -> int:
    # More BLAS threads may change the last bits of a product, and so a digest. Read once, when numpy is first imported;
    # the participants' processes inherit it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from service.demo.run import run_demo

    return run_demo(settings_from(arguments), arguments.seed)
