"""Options that several commands share, and the settings that follow from them."""

import argparse

from service.settings import Settings, load_settings


def add_data(parser: argparse.ArgumentParser) -> None:
    """`--data DIR`: the data folder (default `retrace-data`, or RETRACE_DATA)."""
    parser.add_argument("--data", metavar="DIR", help="data folder (default: retrace-data)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`: one JSON document instead of text."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def settings_from(arguments: argparse.Namespace) -> Settings:
    """Settings from the environment, overridden by the options that were given."""
    names = ("data", "host", "port", "log_origin")
    return load_settings(**{name: getattr(arguments, name, None) for name in names})
