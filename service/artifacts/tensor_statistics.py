"""Counts and sizes of tensors, taken in chunks, so that a file of any size needs little memory. JSON-ready results.

Non-finite values are counted and left out of minimum, maximum and norm; where nothing finite is left, these are None,
never 0. Finiteness is decided by numpy on the values as stored (float16 and bfloat16 exactly widened).
"""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from service.artifacts.byte_source import ByteSource
from service.artifacts.safetensors_header import TensorEntry
from service.artifacts.tensor_file import DTYPES, Array, Layout, widen
from service.domain.facts import tag_number

CHUNK_BYTES = 4 * 1024 * 1024
_BLOCK = 65_536  # elements looked at together: they stay in the processor's cache over all passes
TINY, HUGE = 1e-30, 1e30
TINY_SHARE_IMPLAUSIBLE, HUGE_SHARE_IMPLAUSIBLE = 0.9, 0.01


class TensorStatistics(msgspec.Struct):
    """What one tensor holds. `tiny` and `huge` count non-zero finite values with |x| < 1e-30 and > 1e30."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    nan: int = 0
    positive_infinity: int = 0
    negative_infinity: int = 0
    nonzero: int = 0
    tiny: int = 0
    huge: int = 0
    minimum: float | None = None
    maximum: float | None = None
    sum_of_squares: float | None = None

    @property
    def non_finite(self) -> int:
        """NaN and infinities together."""
        return self.nan + self.positive_infinity + self.negative_infinity

    def as_document(self) -> dict[str, Any]:
        """The JSON form of one tensor in an inspection."""
        norm = None if self.sum_of_squares is None else math.sqrt(self.sum_of_squares)
        return {
            "name": self.name, "dtype": self.dtype, "shape": list(self.shape), "size_bytes": self.size_bytes,
            "nan": self.nan, "positive_infinity": self.positive_infinity,
            "negative_infinity": self.negative_infinity, "minimum": self.minimum, "maximum": self.maximum,
            "norm": None if norm is None else tag_number(norm),
        }  # fmt: skip


def measure(source: ByteSource, layout: Layout, entry: TensorEntry) -> TensorStatistics:
    """The statistics of one tensor, in one pass."""
    found = TensorStatistics(entry.name, entry.dtype, entry.shape, entry.end - entry.begin)
    for raw in tensor_chunks(source, layout, entry):
        values = np.frombuffer(raw, dtype=DTYPES[entry.dtype])
        for begin in range(0, values.size, _BLOCK):
            _add(found, widen(values[begin : begin + _BLOCK], entry.dtype))
    return found


def tensor_chunks(source: ByteSource, layout: Layout, entry: TensorEntry) -> Iterator[Any]:
    """The tensor's bytes in chunks of whole elements."""
    stop = layout.data_offset + entry.end
    for begin in range(layout.data_offset + entry.begin, stop, CHUNK_BYTES):
        yield source.read(begin, min(stop, begin + CHUNK_BYTES))


def tensors_sha256(source: ByteSource, layout: Layout, entries: list[TensorEntry]) -> str:
    """SHA-256 over the tensors' bytes, one after another in the given order."""
    digest = hashlib.sha256()
    for entry in entries:
        for raw in tensor_chunks(source, layout, entry):
            digest.update(raw)
    return digest.hexdigest()


def has_implausible_scale(tensors: list[TensorStatistics]) -> bool:
    """Whether the values look like bytes of another order or type: almost all tiny, or some beyond any weight.

    1.0 written big-endian reads as 4.6e-41; other weights, turned around, spread over all exponents. Zeros are left
    out, so a fresh all-zero tensor is plausible.
    """
    nonzero = sum(tensor.nonzero for tensor in tensors)
    if nonzero == 0:
        return False
    tiny = sum(tensor.tiny for tensor in tensors) / nonzero
    huge = sum(tensor.huge for tensor in tensors) / nonzero
    return tiny >= TINY_SHARE_IMPLAUSIBLE or huge >= HUGE_SHARE_IMPLAUSIBLE


def _add(found: TensorStatistics, values: Array) -> None:
    with np.errstate(invalid="ignore"):  # a signalling NaN is no mistake of ours: it is counted below
        numbers = values.astype(np.float64)
    # A sum with a NaN or an infinity in it is not finite, and one pass is cheaper than a mask.
    if not math.isfinite(float(numbers.min()) + float(numbers.max())):
        found.nan += int(np.isnan(numbers).sum())
        found.positive_infinity += int(np.isposinf(numbers).sum())
        found.negative_infinity += int(np.isneginf(numbers).sum())
        numbers = numbers[np.isfinite(numbers)]
        if numbers.size == 0:
            return
    low, high = float(numbers.min()), float(numbers.max())
    found.minimum = low if found.minimum is None else min(found.minimum, low)
    found.maximum = high if found.maximum is None else max(found.maximum, high)
    magnitudes = np.abs(numbers, out=numbers)
    nonzero = int(np.count_nonzero(magnitudes))
    found.nonzero += nonzero
    found.tiny += nonzero - int(np.count_nonzero(magnitudes >= TINY))
    if max(-low, high) > HUGE:
        found.huge += int(np.count_nonzero(magnitudes > HUGE))
    with np.errstate(over="ignore", under="ignore"):
        # Not a dot product: its threads would spin against the other processes of the host.
        found.sum_of_squares = (found.sum_of_squares or 0.0) + float(np.square(magnitudes, out=magnitudes).sum())
