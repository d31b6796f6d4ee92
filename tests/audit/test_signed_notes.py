"""Signed notes and tree heads, against golden notes that Go's `note` package opens too."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.audit.merkle import EMPTY_ROOT
from service.audit.signed_note import SigningKey, VerifierKey, open_note, sign_note
from service.audit.tree_head import TreeHead, head_text, open_head, parse_head, sign_head
from service.errors import MalformedNote

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent.parent / "golden/checkpoint_note.json").read_text())
ORIGIN: str = GOLDEN["origin"]
HEAD = TreeHead(8, bytes.fromhex(GOLDEN["root_hex"]), ORIGIN)


def key_of(name: str) -> SigningKey:
    return SigningKey(ORIGIN, bytes.fromhex(GOLDEN[name]["TEST_ONLY_seed_hex"]))


KEY, OLD_KEY = key_of("log_key"), key_of("previous_log_key")
NOTE: str = GOLDEN["checkpoint_note"]


def test_head_is_signed_to_the_golden_bytes() -> None:
    assert sign_head(HEAD, [KEY]) == NOTE
    assert sign_head(HEAD, [OLD_KEY, KEY]) == GOLDEN["checkpoint_note_key_rotation"]


@pytest.mark.parametrize("name", ["log_key", "previous_log_key"])
def test_keys_have_the_golden_text_forms(name: str) -> None:
    key = key_of(name)
    assert key.verifier.text == GOLDEN[name]["vkey"]
    assert key.verifier.key_id.hex() == GOLDEN[name]["key_id_hex"]
    assert VerifierKey.parse(key.verifier.text) == key.verifier
    assert SigningKey.parse(key.text) == key
    assert key.text.split("+")[-1] not in repr(key)


@pytest.mark.parametrize("keys", [[KEY], [OLD_KEY], [KEY, OLD_KEY]], ids=["new", "old", "both"])
def test_note_of_a_rotation_opens_with_either_key(keys: list[SigningKey]) -> None:
    assert open_head(GOLDEN["checkpoint_note_key_rotation"], [key.verifier for key in keys], ORIGIN) == HEAD


def test_signature_of_an_unknown_witness_is_passed_by() -> None:
    assert open_head(GOLDEN["checkpoint_note_with_witness"], [KEY.verifier], ORIGIN) == HEAD


@pytest.mark.parametrize("name", GOLDEN["must_reject"])
def test_note_that_must_be_refused_is_refused(name: str) -> None:
    with pytest.raises(MalformedNote):
        open_head(GOLDEN["must_reject"][name], [KEY.verifier], ORIGIN)


@pytest.mark.parametrize(
    "text",
    ["o\n08\n{root}\n", "o\n+8\n{root}\n", "o\n-0\n{root}\n", "o\n\u0668\n{root}\n", "o\n8 \n{root}\n",
     "o\n8\n{root}=\n", "o\n8\nAAAA\n", "o\n8\n{root}\n\n", "\n8\n{root}\n", "o\n8\n",
     "o\n0\n{root}\n", "o\n8\n{root}"],
)  # fmt: skip
def test_head_that_is_validly_signed_but_not_canonical_is_refused(text: str) -> None:
    """The signature covers these bytes, so only the parser can refuse them."""
    root = GOLDEN["checkpoint_note"].split("\n")[2]
    with pytest.raises(MalformedNote):
        parse_head(text.format(root=root))


def test_head_of_an_empty_log_has_the_empty_root() -> None:
    head = TreeHead(0, EMPTY_ROOT, ORIGIN)
    assert open_head(sign_head(head, [KEY]), [KEY.verifier]) == head


def test_signed_extension_lines_are_kept() -> None:
    head = TreeHead(8, HEAD.root, ORIGIN, ("extra line",))
    assert open_head(sign_head(head, [KEY]), [KEY.verifier]) == head


def test_head_of_another_log_is_refused() -> None:
    with pytest.raises(MalformedNote):
        open_head(NOTE, [KEY.verifier], "weei.test/other-log")


def test_note_without_a_known_key_is_refused() -> None:
    with pytest.raises(MalformedNote):
        open_note(NOTE, [OLD_KEY.verifier])


def test_good_signature_does_not_excuse_a_bad_one_of_another_known_key() -> None:
    bad_line = sign_note(head_text(HEAD) + "more\n", [OLD_KEY]).split("\n\n")[1]
    with pytest.raises(MalformedNote):
        open_note(NOTE + bad_line, [KEY.verifier, OLD_KEY.verifier])


def test_note_with_sixteen_signatures_is_read() -> None:
    others = [SigningKey(f"witness-{at}", bytes([at]) * 32) for at in range(15)]
    assert open_note(sign_note(head_text(HEAD), [KEY, *others]), [KEY.verifier]) == head_text(HEAD)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\tb", "a\u00a0b"])
def test_key_name_with_space_or_plus_is_refused(name: str) -> None:
    with pytest.raises(MalformedNote):
        SigningKey.parse(SigningKey(name, bytes(32)).text)


@given(st.integers(0, len(NOTE) - 1), st.characters())
def test_note_with_any_character_changed_is_refused(at: int, letter: str) -> None:
    changed = NOTE[:at] + letter + NOTE[at + 1 :]
    if changed != NOTE:
        with pytest.raises(MalformedNote):
            open_note(changed, [KEY.verifier])
