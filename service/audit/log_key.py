"""The log's key and its memory, two small files beside the store. What is signed is decided elsewhere.

`log-key` (mode 0600) has one private key per line, in the form of Go's `note` package; the first use creates it. Each
key in it signs every head, so a rotation is: add the new key as first line, publish it, drop the old one after the
overlap. `log-head` is the note that was signed last: it is kept outside the database on purpose, so that restoring an
old database cannot make us sign a second history.
"""

import os
from pathlib import Path
from typing import Self

from service.audit.signed_note import SigningKey, VerifierKey
from service.domain.identifiers import RandomBytes
from service.errors import MalformedNote, SetupError


class LogKey:
    """The signing keys of one log and the head they signed last."""

    def __init__(self, folder: Path, keys: tuple[SigningKey, ...]) -> None:
        """Use `LogKey.open`."""
        self._folder = folder
        self.signers = keys

    @classmethod
    def open(cls, folder: Path, origin: str, random_bytes: RandomBytes = os.urandom) -> Self:
        """The keys in `folder/log-key`; a new one, named like the origin, when there is no such file.

        Raises SetupError when others may read the file, when it cannot be understood, or when its key has
        another name than the origin.
        """
        path = folder / "log-key"
        if not path.exists():
            if last_note(folder) is not None:
                raise SetupError(
                    f"{path} is missing, though heads were signed with it: restore it from a backup; a new key would "
                    "make a log that nobody's kept heads fit"
                )
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, SigningKey(origin, random_bytes(32)).text + "\n", exclusive=True)
        return cls(folder, _read_keys(path, origin))

    @property
    def verifiers(self) -> tuple[VerifierKey, ...]:
        """The public halves, newest first. Whoever checks the log must have them from elsewhere than the log."""
        return tuple(key.verifier for key in self.signers)

    def last_note(self) -> str | None:
        """The note signed last, or None before the first."""
        return last_note(self._folder)

    def remember(self, note: str) -> None:
        """Keep the note before it is shown to anybody: atomically, and synced to disk."""
        _write(self._folder / "log-head", note, exclusive=False)


def read_verifiers(folder: Path, origin: str) -> tuple[VerifierKey, ...]:
    """The public keys of an existing `log-key`, which stays as it is; empty when there is none."""
    path = folder / "log-key"
    return tuple(key.verifier for key in _read_keys(path, origin)) if path.exists() else ()


def last_note(folder: Path) -> str | None:
    """The note in `folder/log-head`, or None when there is none."""
    path = folder / "log-head"
    return path.read_text(encoding="utf-8") if path.exists() else None


def _read_keys(path: Path, origin: str) -> tuple[SigningKey, ...]:
    if path.stat().st_mode & 0o077:
        raise SetupError(f"{path} can be read by others; run: chmod 600 {path}")
    try:
        keys = tuple(SigningKey.parse(line) for line in path.read_text(encoding="utf-8").split("\n") if line)
    except (MalformedNote, UnicodeDecodeError) as error:
        raise SetupError(f"{path} holds no log key: {error}; restore it from a backup") from None
    if not keys or any(key.name != origin for key in keys):
        raise SetupError(f"the keys in {path} are not of the log {origin!r}; set RETRACE_LOG_ORIGIN to their name")
    return keys


def _write(path: Path, text: str, exclusive: bool) -> None:
    """Write a private file so that it is whole or not there, and still there after power loss."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)
    if exclusive:
        _publish_once(partial, path)
    else:
        os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _publish_once(partial: Path, path: Path) -> None:
    """Give the file its name unless another process was first; then that one's file counts."""
    try:
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        partial.unlink()
