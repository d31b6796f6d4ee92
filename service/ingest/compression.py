"""Compressed request bodies: gzip, with a limit on what comes out. Pure."""

import zlib

from service.errors import InvalidEncoding, TooLarge, UnsupportedContentType

_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def decompress(body: bytes, content_encoding: str, size_bytes_max: int) -> bytes:
    """The body itself, by its Content-Encoding. Never makes more than `size_bytes_max` + 1 bytes.

    Raises UnsupportedContentType for an encoding other than gzip or identity, InvalidEncoding for a body that is no
    complete gzip stream, TooLarge for one that would become larger.
    """
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise UnsupportedContentType(
            f"Content-Encoding: got {content_encoding[:80]!r}, wanted gzip or none", allowed=["gzip", "identity"]
        )
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = inflater.decompress(body, size_bytes_max + 1)
    except zlib.error as error:
        raise InvalidEncoding(f"the body is no gzip stream: {error}") from None
    if len(plain) > size_bytes_max:
        raise TooLarge(
            f"the body has more than {size_bytes_max} bytes once decompressed, wanted at most that; send it in parts",
            limit=size_bytes_max, unit="bytes", path="$",
        )  # fmt: skip
    if not inflater.eof or inflater.unused_data:
        raise InvalidEncoding("the body is not exactly one complete gzip stream")
    return plain
