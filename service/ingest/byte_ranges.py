"""The part of an artifact that a Range header asks for (RFC 9110 section 14). Pure."""

import re

from service.errors import RangeNotSatisfiable

_ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def read_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """(start, end) with end exclusive, or None when the whole is to be sent.

    A header that asks for several parts, or makes no sense, is passed by, as the RFC allows. Raises
    RangeNotSatisfiable for a part that begins beyond the end.
    """
    match = _ONE_RANGE.fullmatch((header or "").replace(" ", ""))
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first == "":
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), min(size_bytes, int(last) + 1 if last else size_bytes)
        if last and int(last) < start:
            return None
    if start >= size_bytes:
        raise RangeNotSatisfiable(f"Range: the artifact has {size_bytes} bytes", size_bytes=size_bytes)
    return start, end
