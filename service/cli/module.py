"""`retrace module`: check a module package, pack one from its sources, or make one from an ONNX graph."""

import argparse
from pathlib import Path

from service.cli.options import add_json
from service.cli.output import answers, notices, print_json
from service.errors import SetupError

CHECKPOINT_NAME = "checkpoint.safetensors"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="check a package: module.json with what it names beside it")
    check.add_argument("path", type=Path)
    pack = actions.add_parser("pack", help="pack the sources of a package: shaders, text form of the WASM module")
    pack.add_argument("path", type=Path)
    from_onnx = actions.add_parser("from-onnx", help="turn a graph of standard operations into a package")
    from_onnx.add_argument("path", type=Path)
    from_onnx.add_argument("--job", help="write the weights too, as a checkpoint of this job")
    for action in (pack, from_onnx):
        action.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    for action in (check, pack, from_onnx):
        add_json(action)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.path.exists():
        raise SetupError(f"{arguments.path} does not exist")
    if arguments.action == "check":
        return _check(arguments)
    written = _pack(arguments) if arguments.action == "pack" else _from_onnx(arguments)
    if arguments.json:
        print_json([str(path) for path in written])
    else:
        answers.print("\n".join(f"wrote {path}" for path in written), markup=False)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from service.artifacts.packing import check_package

    found = check_package(arguments.path)
    if arguments.json:
        print_json(found)
    else:
        answers.print("\n".join(f"{name}: {value}" for name, value in found.items()), markup=False)
    return 0


def _pack(arguments: argparse.Namespace) -> list[Path]:
    from service.artifacts.packing import pack_module, write_package

    package = pack_module(arguments.path)
    for note in package.notes:
        notices.print(note, markup=False)
    return write_package(package, arguments.output)


def _from_onnx(arguments: argparse.Namespace) -> list[Path]:
    from service.artifacts.onnx_import import import_onnx
    from service.artifacts.packing import write_package

    imported = import_onnx(arguments.path.read_bytes())
    for note in imported.package.notes:
        notices.print(note, markup=False)
    written = write_package(imported.package, arguments.output)
    if arguments.job is not None:
        checkpoint = arguments.output / CHECKPOINT_NAME
        checkpoint.write_bytes(imported.checkpoint(arguments.job))
        written.append(checkpoint)
    return written
