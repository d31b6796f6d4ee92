"""How messages travel: one duplex pipe between the coordinator and each participant's process. Bytes in, bytes out."""

from collections.abc import Mapping
from multiprocessing import connection
from typing import Protocol

from service.demo.messages import (
    ToCoordinator,
    ToParticipant,
    decode_for_coordinator,
    decode_for_participant,
    encode,
)
from service.errors import Unavailable

Pipe = connection.Connection


class Link(Protocol):
    """A participant's end."""

    def send(self, message: ToCoordinator) -> None:
        """Hand a message to the coordinator."""

    def receive(self, timeout_s: float) -> ToParticipant | None:
        """The next message; None when none came in time. Raises EOFError when the coordinator is gone."""


class Switchboard(Protocol):
    """The coordinator's end: all participants at once."""

    def send(self, participant: str, message: ToParticipant) -> None:
        """Hand a message to one participant."""

    def receive(self, timeout_s: float) -> list[tuple[str, ToCoordinator]]:
        """What came in, with its sender; empty when nothing came in time."""


class PipeLink:
    """Link over a pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def send(self, message: ToCoordinator) -> None:
        """Hand a message to the coordinator."""
        self._pipe.send_bytes(encode(message))

    def receive(self, timeout_s: float) -> ToParticipant | None:
        """The next message, or None. A message at hand is taken even when the time is already over."""
        if not self._pipe.poll(max(timeout_s, 0.0)):
            return None
        return decode_for_participant(self._pipe.recv_bytes())


class PipeSwitchboard:
    """Switchboard over one pipe for each participant."""

    def __init__(self, pipes: Mapping[str, Pipe]) -> None:
        self._pipes = dict(pipes)
        self._senders = {pipe: participant for participant, pipe in pipes.items()}

    def send(self, participant: str, message: ToParticipant) -> None:
        """Hand a message to one participant. Raises Unavailable when its process is gone."""
        try:
            self._pipes[participant].send_bytes(encode(message))
        except OSError as error:
            raise _gone(participant) from error

    def receive(self, timeout_s: float) -> list[tuple[str, ToCoordinator]]:
        """One message from each participant that has any. Raises Unavailable when a process ended on its own."""
        messages = []
        for ready in connection.wait(list(self._senders), max(timeout_s, 0.0)):
            pipe = ready
            assert isinstance(pipe, Pipe)
            participant = self._senders[pipe]
            try:
                messages.append((participant, decode_for_coordinator(pipe.recv_bytes())))
            except EOFError:
                raise _gone(participant) from None
        return messages


def _gone(participant: str) -> Unavailable:
    return Unavailable(f"the process of {participant} ended in the middle of the demo; its last words stand above")
