"""Inputs of ad-hoc inference, from JSON, .npy or a tensor file to the tensor file that a job takes. Pure.

JSON is `{"inputs": {"image": [[…], …]}}`, a non-finite number its tag; .npy is for models with one input. Values are
converted to the dtype that module.json declares when that loses nothing but digits.
"""

import io
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from service.artifacts.module_package import ModulePackage, TensorSpec
from service.artifacts.tensor_file import Array, read_tensors, write_tensors
from service.domain.facts import untag_number
from service.errors import InvalidField, InvalidJson, UnsupportedContentType
from service.replay.plan import DTYPES

JSON, NPY, TENSOR_FILE = "application/json", "application/x-npy", "application/octet-stream"
_NPY_HEADER_MAX = 4096


class Inputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a JSON request: nested lists by input name."""

    inputs: dict[str, Any]


def read_inputs(body: bytes, content_type: str, module: ModulePackage) -> bytes:
    """The inputs as a tensor file.

    Raises UnsupportedContentType, InvalidJson, InvalidField for what does not fit, MalformedTensorFile.
    """
    specs = {spec.name: spec for spec in module.forward_inputs}
    kind = content_type.partition(";")[0].strip().lower()
    if kind == JSON:
        given = _from_json(body, specs)
    elif kind == NPY:
        if len(specs) != 1:
            raise InvalidField(f"one array cannot be {sorted(specs)}; send JSON or a tensor file", path="$")
        given = {next(iter(specs)): _from_npy(body)}
    elif kind == TENSOR_FILE:
        given = read_tensors(body)
    else:
        raise UnsupportedContentType(
            f"got Content-Type {kind[:80]!r}, wanted {JSON}, {NPY} or {TENSOR_FILE} (a tensor file)"
        )
    unknown = sorted(set(given) - set(specs))
    if unknown:
        raise InvalidField(f"the model has no input {unknown[0]!r}; it has {sorted(specs)}", path="$.inputs")
    return write_tensors({name: _converted(array, specs[name]) for name, array in given.items()})


def outputs_document(outputs: bytes) -> dict[str, Any]:
    """Outputs by name as nested lists; non-finite numbers are left to the encoder of the answer."""
    return {name: array.tolist() for name, array in read_tensors(outputs).items()}


def outputs_npy(outputs: bytes) -> bytes:
    """The one output as .npy. Raises InvalidField for a model with several."""
    tensors = read_tensors(outputs)
    if len(tensors) != 1:
        raise InvalidField(f".npy holds one array, the model gives {sorted(tensors)}; accept JSON", path="$")
    buffer = io.BytesIO()
    np.save(buffer, next(iter(tensors.values())), allow_pickle=False)
    return buffer.getvalue()


def _from_json(body: bytes, specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    try:
        inputs = msgspec.json.decode(body, type=Inputs).inputs
    except msgspec.ValidationError as error:
        raise InvalidField(f'the body does not fit: {error}; wanted {{"inputs": {{name: rows}}}}', path="$") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidJson(f"the body is no JSON: {error}") from None
    return {name: _from_lists(name, rows) for name, rows in inputs.items()}


def _from_lists(name: str, rows: Any) -> Array:
    try:
        array = np.asarray(_untagged(rows), dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidField(f"input {name!r} is no regular array of numbers: {error}", path=f"$.inputs.{name}") from None
    return array


def _untagged(value: Any) -> Any:
    """Lists with their tags as numbers. Raises TypeError for anything that is no number: null is not 0."""
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    number = untag_number(value) if not isinstance(value, str) else None
    if number is None:
        raise TypeError(f"{value!r} is no number")
    return number


def _from_npy(body: bytes) -> Array:
    """The array of a .npy file. Its header is checked against the size of the body before anything is allocated."""
    stream = io.BytesIO(body)
    try:
        major, _ = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(stream, max_header_size=_NPY_HEADER_MAX)
    except (ValueError, EOFError) as error:
        raise InvalidField(f"the body is no .npy file: {error}", path="$") from None
    size = dtype.itemsize
    for axis in shape:
        size *= axis
    rest = len(body) - stream.tell()
    if dtype.kind not in "fiub" or size != rest:
        raise InvalidField(f".npy: got {dtype} {list(shape)} in {rest} bytes, wanted numbers in {size} bytes", path="$")
    flat = np.frombuffer(body, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _converted(array: Array, spec: TensorSpec) -> Array:
    """The array in the input's dtype. Whole numbers must stay what they are; floats may lose digits."""
    wanted = np.dtype(DTYPES[spec.dtype])
    with np.errstate(all="ignore"):
        converted = array.astype(wanted)
    if wanted.kind != "f" and not np.array_equal(converted.astype(np.float64), array.astype(np.float64)):
        raise InvalidField(f"input {spec.name!r} holds values that are no {spec.dtype}", path=f"$.inputs.{spec.name}")
    return converted
