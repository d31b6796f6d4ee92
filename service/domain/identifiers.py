"""Ids and names: UUIDv7 for events, digests, stream names. Everything that has an id travels as a string."""

import re
import uuid
from collections.abc import Callable

from service.errors import InvalidDigest, InvalidField

RandomBytes = Callable[[int], bytes]
"""Gives n random bytes; passed in as an argument (`os.urandom` in production)."""

ID_LENGTH_MAX = 200
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def uuid7(now_us: int, random_bytes: RandomBytes) -> str:
    """A UUIDv7 (RFC 9562 section 5.7): 48 bits of Unix milliseconds, then 74 random bits."""
    raw = bytearray((now_us // 1000).to_bytes(6, "big") + random_bytes(10))
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return str(uuid.UUID(bytes=bytes(raw)))


def parse_uuid(text: str, path: str) -> uuid.UUID:
    """A UUID in its 36-character lower-case form. Raises InvalidField, naming `path`, for any other spelling."""
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        raise _not_a_uuid(text, path) from None
    if str(parsed) != text:
        raise _not_a_uuid(text, path)
    return parsed


def _not_a_uuid(text: str, path: str) -> InvalidField:
    return InvalidField(f"{path}: got {text[:64]!r}, wanted a lower-case UUID of 36 characters", path=path)


def check_id(text: str, path: str) -> str:
    """An id: 1 to 200 characters without NUL or lone surrogate. Raises InvalidField naming `path`."""
    if not text:
        raise InvalidField(f"{path}: got an empty id, wanted 1 to {ID_LENGTH_MAX} characters", path=path)
    if len(text) > ID_LENGTH_MAX:
        raise InvalidField(
            f"{path}: got {len(text)} characters, wanted at most {ID_LENGTH_MAX}",
            path=path, limit=ID_LENGTH_MAX, got=len(text), unit="characters",
        )  # fmt: skip
    if "\x00" in text:
        raise InvalidField(f"{path}: an id must not contain the NUL character", path=path)
    return text


def is_sha256(text: str) -> bool:
    """Whether the text is 64 lower-case hex digits."""
    return _SHA256.fullmatch(text) is not None


def check_sha256(text: str) -> str:
    """The digest itself. Raises InvalidDigest for anything but 64 lower-case hex digits."""
    if not is_sha256(text):
        raise InvalidDigest(f"got {text[:80]!r}, wanted a SHA-256 as 64 lower-case hex digits")
    return text


def job_stream(job: str) -> str:
    """`job-<id>`: everything about one job (DESIGN: states, commands, artifacts, replays)."""
    return f"job-{job}"


def recorder_stream(recorder: str) -> str:
    """`recorder-<uuid>`: what a recorder says while no job is known."""
    return f"recorder-{recorder}"


def artifact_stream(sha256: str) -> str:
    """`artifact-<sha256>`: bytes that belong to no job."""
    return f"artifact-{sha256}"


def job_of_stream(stream: str) -> str | None:
    """The job's id when the stream is a job's, else None."""
    return stream[4:] if stream.startswith("job-") else None
