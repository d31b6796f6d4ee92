"""C2SP signed notes with Ed25519 keys: a text, an empty line, signature lines. Strict to the byte; no tree, no files.

Reference: c2sp.org/signed-note@v1.0.0. Signatures of unknown keys are ignored; a known key with a wrong signature
makes the whole note invalid; at least one known key must have signed.
"""

import base64
import binascii
from collections.abc import Sequence
from hashlib import sha256
from typing import Self

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from service.errors import MalformedNote

ED25519_TYPE = 0x01
_DASH = "\u2014"
_SIGNATURES_MAX = 100
"""C2SP asks readers to accept at least 16; a bound keeps a hostile note from costing time."""
_NOTE_BYTES_MAX = 1_000_000


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key under its name. `text` is the form that people exchange (vkey)."""

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        """First 4 bytes of SHA-256(name ‖ LF ‖ type ‖ public key)."""
        return sha256(self.name.encode() + b"\n" + bytes([ED25519_TYPE]) + self.public).digest()[:4]

    @property
    def text(self) -> str:
        """`name+key id in hex+base64(type ‖ public key)`."""
        return f"{self.name}+{self.key_id.hex()}+{_to_base64(bytes([ED25519_TYPE]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A vkey. Raises MalformedNote for another form, another type or a key id that does not fit."""
        name, key_id, rest = _three_parts(text)
        found = cls(check_key_name(name), _ed25519_bytes(rest))
        if found.key_id.hex() != key_id:
            raise MalformedNote(f"the key id {key_id[:16]!r} does not belong to this name and key")
        return found

    def holds(self, text: str, signature: bytes) -> bool:
        """Whether this key signed the text."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text.encode())
        except InvalidSignature:
            return False
        return True


class SigningKey(msgspec.Struct, frozen=True):
    """A private key under its name; `text` is the form of Go's `note` package."""

    name: str
    seed: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.name!r}, ...)"

    @property
    def verifier(self) -> VerifierKey:
        """The public half."""
        return VerifierKey(self.name, self._private.public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        """`PRIVATE+KEY+name+key id+base64(type ‖ seed)`: keep it secret."""
        key_id = self.verifier.key_id.hex()
        return f"PRIVATE+KEY+{self.name}+{key_id}+{_to_base64(bytes([ED25519_TYPE]) + self.seed)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A private key from its text. Raises MalformedNote without repeating the secret."""
        prefix = "PRIVATE+KEY+"
        if not text.startswith(prefix):
            raise MalformedNote(f"a private key begins with {prefix}")
        name, key_id, rest = _three_parts(text.removeprefix(prefix))
        found = cls(check_key_name(name), _ed25519_bytes(rest))
        if found.verifier.key_id.hex() != key_id:
            raise MalformedNote("the key id does not belong to this name and private key")
        return found

    def sign(self, text: str) -> bytes:
        """64 bytes over the text with its final LF."""
        return self._private.sign(text.encode())

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def sign_note(text: str, keys: Sequence[SigningKey]) -> str:
    """The note for a text that ends in LF, with one signature line for each key."""
    lines = [f"{_DASH} {key.name} {_to_base64(key.verifier.key_id + key.sign(text))}\n" for key in keys]
    return f"{_checked_text(text)}\n{''.join(lines)}"


def open_note(note: str, keys: Sequence[VerifierKey]) -> str:
    """The signed text. Raises MalformedNote unless the form is exact and a known key signed it rightly."""
    text, lines = split_note(note)
    known = {(key.name, key.key_id): key for key in keys}
    seen = set()
    for name, key_id, signature in lines:
        key = known.get((name, key_id))
        if key is None:
            continue
        if (name, key_id) in seen:
            raise MalformedNote(f"key {name}+{key_id.hex()} signed the note twice")
        if not key.holds(text, signature):
            raise MalformedNote(f"the signature of key {name}+{key_id.hex()} does not fit the text")
        seen.add((name, key_id))
    if not seen:
        known_keys = ", ".join(key.text for key in keys) or "none"
        raise MalformedNote(f"none of the {len(lines)} signatures is by a known key (known: {known_keys})")
    return text


def split_note(note: str) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """Text and signature lines `(name, key id, signature)`, checked for form only. Raises MalformedNote."""
    if len(note) > _NOTE_BYTES_MAX:
        raise MalformedNote(f"the note has {len(note)} characters, at most {_NOTE_BYTES_MAX} are read")
    text, separator, block = note.rpartition("\n\n")
    if not separator:
        raise MalformedNote("the note has no empty line between text and signatures")
    _checked_text(text + "\n")
    if not block.endswith("\n"):
        raise MalformedNote("the note does not end in a line feed")
    lines = block[:-1].split("\n")
    if len(lines) > _SIGNATURES_MAX:
        raise MalformedNote(f"the note has {len(lines)} signatures, at most {_SIGNATURES_MAX} are read")
    return text + "\n", [_signature_line(line) for line in lines]


def check_key_name(name: str) -> str:
    """The name itself. Raises MalformedNote when empty or with a space, a plus or a control character."""
    if not name or "+" in name or any(letter.isspace() or ord(letter) < 0x20 for letter in name):
        raise MalformedNote(f"got the key name {name[:80]!r}, wanted one without spaces and plus signs")
    return name


def from_base64(text: str) -> bytes:
    """Standard base64 with padding, in its only canonical spelling. Raises MalformedNote."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or _to_base64(data) != text:
        raise MalformedNote(f"got {text[:80]!r}, wanted canonical base64")
    return data


def _signature_line(line: str) -> tuple[str, bytes, bytes]:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != _DASH:
        raise MalformedNote(f"got the signature line {line[:80]!r}, wanted dash, key name and base64")
    blob = from_base64(parts[2])
    if len(blob) < 5:
        raise MalformedNote("a signature is shorter than its key id")
    return check_key_name(parts[1]), blob[:4], blob[4:]


def _checked_text(text: str) -> str:
    if not text.endswith("\n"):
        raise MalformedNote("the signed text does not end in a line feed")
    if any(ord(letter) < 0x20 and letter != "\n" for letter in text) or "\x7f" in text:
        raise MalformedNote("the note contains a control character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedNote("the note is not UTF-8") from None
    return text


def _three_parts(text: str) -> tuple[str, str, str]:
    parts = text.split("+", 2)  # base64 may itself contain a plus
    if len(parts) != 3:
        raise MalformedNote("a key has the form name+key id+base64")
    return parts[0], parts[1], parts[2]


def _ed25519_bytes(text: str) -> bytes:
    blob = from_base64(text)
    if len(blob) != 33 or blob[0] != ED25519_TYPE:
        raise MalformedNote("the key is not an Ed25519 key (type byte 0x01 and 32 bytes)")
    return blob[1:]


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
