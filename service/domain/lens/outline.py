"""How a State document is divided: job, page, participants, checkpoints, and who the page's own participant is."""

from typing import Any

from service.domain.once import once
from service.domain.readers import Word, finite, identifier
from service.errors import MalformedState

OWNER = "owner"


class Snapshot:
    """One State document, taken apart on demand. Raises MalformedState where the outline does not hold."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise _malformed("$", document, "an object")
        self.document: Word = document

    @property
    def is_owner(self) -> bool:
        """Whether this page is the job owner's."""
        return self.document.get("role") == OWNER

    @property
    def job(self) -> Word | None:
        """What the page says of its job; None while it has none."""
        return _object_or_none(self.document, "job", "$.job")

    @property
    def page(self) -> Word:
        """What the page says of itself: preferences, visibility, storage, transfer, invitations, own execution."""
        return {key: value for key, value in self.document.items() if key not in _SECTIONS}

    @once
    def participants(self) -> dict[str, Word]:
        """The word about each participant by id; for an id listed twice the last entry. See `entries`."""
        return {_id_of(word, i): word for i, word in enumerate(self.entries)}

    @once
    def entries(self) -> list[Word]:
        """The list of participants as it stands, repeats included."""
        return _list_of_objects(self.document, "participants")

    @once
    def own_participant(self) -> str | None:
        """Id of the participant whose page this is."""
        for participant, word in self.participants.items():
            if word.get("local") is True:
                return participant
        return None

    @property
    def checkpoints(self) -> list[Word]:
        """What the page says of each checkpoint, in its order."""
        return _list_of_objects(self.document, "checkpoints")

    def own_word(self, word: Word) -> Word:
        """The own participant's word with `state.execution`, the actual execution, where that is no older.

        A page may refresh `state.execution` less often than its participant entry: the higher `stageSeq` counts.
        """
        actual = self.document.get("execution")
        listed = word.get("execution")
        if not isinstance(actual, dict) or actual == listed:
            return word
        if isinstance(listed, dict) and (finite(listed, "stageSeq") or 0) > (finite(actual, "stageSeq") or 0):
            return word
        return {**word, "execution": actual}


_SECTIONS = frozenset({"job", "participants", "checkpoints", "role"})


def _object_or_none(document: Word, key: str, path: str) -> Word | None:
    value = document.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise _malformed(path, value, "an object or null")


def _list_of_objects(document: Word, key: str) -> list[Word]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _malformed(f"$.{key}", value, "a list")
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise _malformed(f"$.{key}[{i}]", item, "an object")
    return value


def _id_of(word: Word, place: int) -> str:
    told = word.get("id")
    if told.__class__ is str and told:
        return told
    text, reason = identifier(told)
    if text is None:
        path = f"$.participants[{place}].id"
        raise MalformedState(f"{path}: {reason or 'is missing'}; wanted a string or an integer", path=path)
    return str(text)


def _malformed(path: str, got: Any, wanted: str) -> MalformedState:
    kind = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}.get(type(got), "a number")
    return MalformedState(f"{path}: got {kind}, wanted {wanted}; the lens cannot read this state", path=path)
