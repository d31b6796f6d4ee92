"""`retrace serve`: the service on one data folder, until SIGINT or SIGTERM."""

import argparse

from service.cli.options import add_data, settings_from


def configure(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: 7400; 0 takes a free one)")


def run(arguments: argparse.Namespace) -> int:
    from service.server import serve

    serve(settings_from(arguments))
    return 0
