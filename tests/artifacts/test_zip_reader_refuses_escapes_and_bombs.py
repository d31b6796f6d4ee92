"""F29: the whole archive is refused, with member and reason; an honest archive comes back to the byte."""

import contextlib
import io
import stat
import struct
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.artifacts.zip_container import ARCHIVE_BYTES_MAX, ZipError, read_zip, write_zip

PeakBytes = Callable[[Callable[[], object]], int]
MEMBERS = {"manifest.json": b"{}", "shaders/a.wgsl": b"// a" * 50}


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def refusal_of(data: bytes) -> ZipError:
    with pytest.raises(ZipError) as refusal:
        read_zip(data)
    return refusal.value


def test_members_come_back_and_equal_members_give_equal_bytes() -> None:
    data = write_zip(MEMBERS)
    assert read_zip(data) == MEMBERS
    assert write_zip(dict(reversed(MEMBERS.items()))) == data


def test_python_reads_what_is_written_here_and_the_other_way_round() -> None:
    with zipfile.ZipFile(io.BytesIO(write_zip(MEMBERS))) as archive:
        assert archive.testzip() is None
        assert {info.filename: archive.read(info) for info in archive.infolist()} == MEMBERS
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert read_zip(zipped(*MEMBERS.items(), method=method)) == MEMBERS


@pytest.mark.parametrize(
    "name",
    ["../x.wgsl", "a/../x", "/abs.wgsl", "a\\..\\x.wgsl", "C:x.wgsl", "folder/", "a//b", "./a", "x" * 201, "ä", "a\nb"],
)
def test_names_that_could_lead_elsewhere_are_refused(name: str) -> None:
    refusal = refusal_of(zipped(("good", b""), (name, b"x")))
    assert refusal.member is not None
    assert "name" in refusal.reason


def test_a_symbolic_link_is_refused() -> None:
    link = zipfile.ZipInfo("shaders/link.wgsl")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refusal = refusal_of(zipped((link, b"/etc/passwd")))
    assert (refusal.member, "symbolic link" in refusal.reason) == ("shaders/link.wgsl", True)


@pytest.mark.parametrize("second", ["a.wgsl", "A.WGSL"])
def test_a_name_given_twice_is_refused(second: str) -> None:
    with pytest.warns(UserWarning, match="Duplicate") if second == "a.wgsl" else contextlib.nullcontext():
        data = zipped(("a.wgsl", b"one"), (second, b"two"))
    refusal = refusal_of(data)
    assert (refusal.member, refusal.reason) == (second, "the name is there twice")


def test_a_hundred_thousand_empty_members_are_refused_by_their_count(peak_bytes: PeakBytes) -> None:
    data = zipped(*((f"{i:06}", b"") for i in range(257)))
    assert "257 members, wanted at most 256" in refusal_of(data).reason
    many = zipped(*((f"{i:06}", b"") for i in range(100_000)))
    assert peak_bytes(lambda: refusal_of(many)) < 2**20


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_sixty_four_mebibytes_of_zeros_are_refused(method: int, peak_bytes: PeakBytes) -> None:
    data = zipped(("zeros.wgsl", bytes(64 * 2**20)), method=method)
    assert peak_bytes(lambda: refusal_of(data)) < 2**20


def test_one_member_may_not_grow_two_hundredfold() -> None:
    data = zipped(("zeros.wgsl", bytes(2**20)), method=zipfile.ZIP_DEFLATED)
    assert "wanted at most 200 times" in refusal_of(data).reason


def test_a_member_that_inflates_beyond_its_declared_size_is_stopped(peak_bytes: PeakBytes) -> None:
    """The declared size lies: 4 MiB of zeros declared as 100 bytes."""
    data = zipped(("zeros.wgsl", bytes(4 * 2**20)), method=zipfile.ZIP_DEFLATED)
    lying = data.replace(struct.pack("<I", 4 * 2**20), struct.pack("<I", 100))
    assert "inflates to more than its declared size" in refusal_of(lying).reason
    assert peak_bytes(lambda: refusal_of(lying)) < 2**20


def test_an_encrypted_member_is_refused() -> None:
    data = bytearray(zipped(("a.wgsl", b"secret")))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert refusal_of(bytes(data)).reason == "the member is encrypted"


def test_bytes_before_between_or_behind_are_refused() -> None:
    good = zipped(("a", b"one"), ("b", b"two"))
    assert refusal_of(b"#!/bin/sh\n" + good)
    assert "no end record" in refusal_of(good + b"\0").reason
    first = zipped(("a", b"one"))
    split = first.index(b"PK\x01\x02")
    assert refusal_of(first[:split] + b"hidden" + first[split:])


def test_a_comment_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"one")
        archive.comment = b"PK"
    assert refusal_of(buffer.getvalue())


def test_two_records_may_not_share_the_same_bytes() -> None:
    """An overlap bomb: the second directory record points at the first member again."""
    good = bytearray(zipped(("a", b"one"), ("b", b"two")))
    second = good.rindex(b"PK\x01\x02")
    good[second + 42 : second + 46] = bytes(4)
    assert "hidden or shared bytes" in refusal_of(bytes(good)).reason


def test_a_header_that_contradicts_the_directory_is_refused() -> None:
    data = zipped(("a", b"one"))
    assert "contradicts the directory" in refusal_of(data.replace(b"a", b"b", 1)).reason
    assert "CRC-32" in refusal_of(data.replace(b"one", b"One")).reason


def test_an_unknown_method_is_refused() -> None:
    assert "method 14" in refusal_of(zipped(("a", b"one"), method=zipfile.ZIP_LZMA)).reason


def test_an_archive_beyond_eight_mebibytes_is_refused_unread() -> None:
    assert f"wanted at most {ARCHIVE_BYTES_MAX}" in refusal_of(bytes(ARCHIVE_BYTES_MAX + 1)).reason


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?", fullmatch=True), st.binary(max_size=300), max_size=6))
def test_any_honest_archive_round_trips(members: dict[str, bytes]) -> None:
    assert read_zip(write_zip(members)) == members


GOOD = write_zip(MEMBERS)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_any_changed_byte_is_read_or_refused(position: int, value: int) -> None:
    changed = GOOD[:position] + bytes([value]) + GOOD[position + 1 :]
    with contextlib.suppress(ZipError):
        assert all(content in MEMBERS.values() for content in read_zip(changed).values())


@given(st.integers(0, len(GOOD)))
def test_every_cut_is_refused(length: int) -> None:
    if length < len(GOOD):
        refusal_of(GOOD[:length])
