"""Kinds of checkpoint bytes, one file each. A further container is one more file here and its line in CODECS."""

from service.artifacts.byte_source import ByteSource
from service.artifacts.codecs import gzip_stream, npy_array, pickle_stream, retrace_safetensors, unknown, zip_file
from service.artifacts.codecs.codec import HEAD_BYTES, Codec

CODECS: tuple[Codec, ...] = (
    retrace_safetensors.CODEC,
    pickle_stream.CODEC,
    zip_file.CODEC,
    npy_array.CODEC,
    gzip_stream.CODEC,
    unknown.CODEC,
)
"""In the order in which they are asked; the last one recognises everything."""


def codec_of(source: ByteSource) -> Codec:
    """The first codec that recognises the bytes."""
    head = bytes(source.read(0, min(HEAD_BYTES, source.size_bytes)))
    return next(codec for codec in CODECS if codec.recognises(head, source.size_bytes))
