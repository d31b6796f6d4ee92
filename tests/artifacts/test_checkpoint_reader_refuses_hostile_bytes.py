"""One strict reader: what is cut, padded, doubled or oversized is refused, with byte offset and reason."""

import contextlib
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.artifacts.checkpoint_format import read_checkpoint, write_checkpoint
from service.artifacts.tensor_file import read_tensors
from service.errors import MalformedCheckpoint, MalformedTensorFile

PeakBytes = Callable[[Callable[[], None]], int]
GOOD = (Path(__file__).parent.parent / "golden" / "checkpoint-format-2.safetensors").read_bytes()
METADATA_ONE = '{\\"checkpoint_format\\":1,\\"job\\":\\"j\\",\\"module_sha256\\":\\"' + "5e" * 32 + '\\",\\"round\\":3}'


def file_of(header: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header.encode())) + header.encode() + data


def checkpoint_with(metadata: str) -> bytes:
    return file_of('{"__metadata__":{"retrace":"' + metadata.replace('"', '\\"') + '"}}')


def refusal_of(data: bytes) -> MalformedCheckpoint:
    with pytest.raises(MalformedCheckpoint) as refusal:
        read_checkpoint(data)
    assert refusal.value.code == "malformed_checkpoint"
    assert 0 <= refusal.value.details["offset"] <= len(data)
    assert refusal.value.details["reason"] in str(refusal.value)
    return refusal.value


def test_one_byte_more_is_refused_at_its_place() -> None:
    """F22."""
    refusal = refusal_of(GOOD + b"\0")
    assert refusal.details["offset"] == len(GOOD)
    assert "cover 108 data bytes, the file has 109" in str(refusal)


def test_one_byte_less_is_refused() -> None:
    """F22."""
    assert "cover 108 data bytes, the file has 107" in str(refusal_of(GOOD[:-1]))


def test_every_cut_is_refused() -> None:
    """F21: whatever the length at which an upload broke off."""
    for length in range(len(GOOD)):
        refusal_of(GOOD[:length])


@pytest.mark.parametrize(
    ("header", "data", "reason"),
    [
        ('{"w":%s,"w":%s}', b"1234", "duplicate key: 'w' is described twice"),
        ('{"w":%s,"\\u0077":%s}', b"1234", "duplicate key: 'w' is described twice"),
        ('{"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"1234", "duplicate key"),
        ('{"w":{"shape":[1],"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}', b"1234", "duplicate key"),
        ('{"__metadata__":{"a":"1","a":"1"}}', b"", "duplicate key: __metadata__.a"),
        ('{"__metadata__":{"a":"1"},"__metadata__":{"b":"1"}}', b"", "duplicate key: '__metadata__'"),
    ],
)
def test_a_name_given_twice_is_refused_even_when_both_agree(header: str, data: bytes, reason: str) -> None:
    """F23: the safetensors library takes two equal definitions; here each is refused with its name."""
    tensor = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    assert reason in str(refusal_of(file_of(header.replace("%s", tensor), data)))


def test_a_key_given_twice_in_the_metadata_is_refused_with_its_path() -> None:
    """F23, one level deeper."""
    twice = METADATA_ONE.replace('\\"round\\":3', '\\"round\\":3,\\"round\\":4')
    assert "duplicate key at $.round" in str(refusal_of(file_of('{"__metadata__":{"retrace":"' + twice + '"}}')))
    text = GOOD.replace(b'\\"learning_rate\\":\\"1.0\\"', b'\\"momentum\\":\\"1.000000\\"')
    assert len(text) == len(GOOD)
    assert "duplicate key at $.optimizer.settings.momentum" in str(refusal_of(text))


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 100_000_001, 79])
def test_a_header_longer_than_the_file_is_refused_before_anything_is_read(length: int, peak_bytes: PeakBytes) -> None:
    """F24: an 86-byte file whose length prefix promises more."""
    data = struct.pack("<Q", length) + bytes(78)
    assert peak_bytes(lambda: assert_refused(data)) < 2**20


def assert_refused(data: bytes) -> None:
    assert f"at byte 0: the header is said to have {int.from_bytes(data[:8], 'little')} bytes" in str(refusal_of(data))


@pytest.mark.parametrize("shape", ["[4294967296,4294967296]", "[0,9223372036854775808]", "[18446744073709551616,0]"])
def test_products_of_sizes_never_wrap(shape: str) -> None:
    """F24: 2^32 x 2^32 is not 0."""
    header = '{"w":{"dtype":"F32","shape":' + shape + ',"data_offsets":[0,0]}}'
    assert "beyond 64-bit addressing" in str(refusal_of(file_of(header)))


@pytest.mark.parametrize(
    ("tensor", "data", "reason"),
    [
        ('{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}', b"1", "unknown dtype 'F8_E4M3'"),
        ('{"dtype":"f32","shape":[1],"data_offsets":[0,4]}', b"1234", "unknown dtype 'f32'"),
        ('{"dtype":"F32","shape":[2],"data_offsets":[0,4]}', b"1234", "needs 8 bytes, data_offsets [0, 4] give 4"),
        ('{"dtype":"F32","shape":[1],"data_offsets":[4,8]}', b"12345678", "begins at data byte 4, wanted 0"),
        ('{"dtype":"F32","shape":[1],"data_offsets":[4,0]}', b"1234", "needs 4 bytes"),
        ('{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}', b"1234", "no negative number"),
        ('{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}', b"1234", "Expected `int`"),
        ('{"dtype":"F32","shape":[1],"data_offsets":[0]}', b"1234", "length 2"),
        ('{"dtype":"F32","shape":[1]}', b"1234", "missing required field `data_offsets`"),
        ('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}', b"1234", "unknown field `x`"),
        ('"F32"', b"", "wanted tensor 'w' as an object"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_with_its_name(tensor: str, data: bytes, reason: str) -> None:
    assert reason in str(refusal_of(file_of('{"w":' + tensor + "}", data)))


def test_overlapping_tensors_are_refused() -> None:
    header = '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}'
    assert "a gap or an overlap" in str(refusal_of(file_of(header, b"123456")))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("[]", "wanted {"),
        ("{} {}", "bytes other than spaces after the closing brace"),
        ('{"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "wanted 1 to 512 characters, no NUL"),
        ('{"a\\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "wanted 1 to 512 characters, no NUL"),
        ('{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "not a JSON string"),
        ('{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},}', "wanted a tensor name"),
        ('{"__metadata__":{"retrace":1}}', "wanted __metadata__.retrace as a string"),
        ("{}", "wanted exactly one: 'retrace'"),
        ('{"__metadata__":{"retrace":"{}","more":""}}', "wanted exactly one: 'retrace'"),
    ],
)
def test_a_header_outside_the_grammar_is_refused(header: str, reason: str) -> None:
    assert reason in str(refusal_of(file_of(header)))


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ("", "truncated"),
        ("{}", "missing required field `checkpoint_format`"),
        ('{"checkpoint_format":3}', "Invalid value 3"),
        ('{"checkpoint_format":"1"}', "Expected `int`"),
        ('{"checkpoint_format":1,"job":"j","round":-1,"module_sha256":"x"}', "$.round"),
        ('{"checkpoint_format":1,"job":"j","round":1,"module_sha256":"5E"}', "$.module_sha256"),
        ('{"checkpoint_format":1,"job":"","round":1,"module_sha256":"%s"}', "$.job"),
        ('{"checkpoint_format":1,"job":"j","round":1,"module_sha256":"%s","optimizer":null}', "unknown field"),
        ('{"checkpoint_format":1,"job":"j","round":1e999,"module_sha256":"%s"}', "$.round"),
    ],
)
def test_metadata_of_another_shape_is_refused_with_its_path(metadata: str, reason: str) -> None:
    assert reason in str(refusal_of(checkpoint_with(metadata.replace("%s", "5e" * 32))))


def test_optimizer_tensors_have_no_place_in_format_one() -> None:
    header = (
        '{"__metadata__":{"retrace":"' + METADATA_ONE + '"},"opt/m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    )
    assert "'opt/m' is optimizer state, which format 1 does not have" in str(refusal_of(file_of(header, b"1")))


def test_a_metric_that_is_neither_number_nor_tag_is_refused() -> None:
    text = GOOD.replace(b'{\\"non_finite\\":\\"NaN\\"}', b'{\\"non_finite\\":\\"nan\\"}')
    assert "wanted a number, null or a non-finite tag" in str(refusal_of(text))


NESTED = "[" * 2_000_000
BOMBS = {
    "nested arrays": NESTED,
    "nested arrays as a tensor": '{"a":' + NESTED,
    "nested objects as a tensor": '{"a":' + '{"a":' * 400_000,
    "nested arrays in the metadata": '{"__metadata__":{"retrace":"' + NESTED + '"}}',
    "nested arrays in a field": '{"__metadata__":{"retrace":"{\\"checkpoint_format\\":2,\\"job\\":' + NESTED + '"}}',
    "nested arrays before the tag": '{"__metadata__":{"retrace":"{\\"job\\":' + NESTED + '"}}',
    "escapes": '{"__metadata__":{"retrace":"' + "\\u0041" * 2_000_000 + '"}}',
    "200,000 tensors": "{"
    + ",".join(f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(200_000)),
    "an endless string": '{"' + "a" * 4_000_000,
    "many metadata keys": '{"__metadata__":{' + ",".join(f'"{i}":""' for i in range(100_000)) + "}}",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_header_bomb_costs_little_memory(bomb: str, peak_bytes: PeakBytes) -> None:
    data = file_of(BOMBS[bomb])
    assert peak_bytes(lambda: assert_malformed(data)) < 50 * 2**20


def assert_malformed(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        read_checkpoint(data)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused_and_never_crash(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        read_checkpoint(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_any_changed_byte_is_read_or_refused(position: int, value: int) -> None:
    """A changed byte of a weight is a different weight; a changed byte of the form is refused; nothing else happens."""
    changed = GOOD[:position] + bytes([value]) + GOOD[position + 1 :]
    try:
        checkpoint = read_checkpoint(changed)
    except MalformedCheckpoint:
        return
    read_checkpoint(write_checkpoint(checkpoint))


@given(st.text('{}[]":,\\ 0123456789adeFshptyn_', max_size=200), st.binary(max_size=20))
def test_arbitrary_headers_are_read_or_refused(header: str, data: bytes) -> None:
    with contextlib.suppress(MalformedTensorFile):
        read_tensors(file_of("{" + header, data))
