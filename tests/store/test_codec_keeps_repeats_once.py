"""The payload codec: everything comes back, patches are small, damage is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import Corrupt
from service.store.codec import KEYFRAME, KEYFRAME_EVERY, PATCH, RAW, Encoded, Encoder, KeyframeDecoder, decode_alone
from tests.event_builders import state_document


def decode(stored: dict[int, tuple[Encoded, int]], position: int) -> bytes:
    (encoding, keyframe, data), size = stored[position]
    if encoding != PATCH:
        return decode_alone(position, encoding, data, size)
    assert keyframe is not None
    (frame_encoding, _, frame), frame_size = stored[keyframe]
    return KeyframeDecoder(decode_alone(keyframe, frame_encoding, frame, frame_size)).decode(position, data, size)


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=400)), max_size=150))
def test_any_payloads_come_back(payloads: list[tuple[int, bytes]]) -> None:
    encoder = Encoder()
    stored = {
        position: (encoder.encode(chain, position, data), len(data))
        for position, (chain, data) in enumerate(payloads, 1)
    }
    assert [decode(stored, position) for position in stored] == [data for _, data in payloads]


def test_state_documents_shrink_to_a_few_percent() -> None:
    encoder = Encoder()
    documents = [state_document(step, participants=6) for step in range(640)]
    encoded = [encoder.encode("chain", position, data) for position, data in enumerate(documents, 1)]
    stored_bytes = sum(len(data) for _, _, data in encoded)
    assert stored_bytes < 0.06 * sum(map(len, documents))
    assert [encoding for encoding, _, _ in encoded].count(KEYFRAME) == 10


def test_no_more_than_a_bounded_number_lean_on_one_keyframe() -> None:
    encoder = Encoder()
    encoded = [encoder.encode("chain", position, state_document(position)) for position in range(1, 500)]
    keyframes = [keyframe for encoding, keyframe, _ in encoded if encoding == PATCH]
    assert max(keyframes.count(keyframe) for keyframe in set(keyframes)) == KEYFRAME_EVERY - 1


def test_what_does_not_get_smaller_stays_raw() -> None:
    noise = bytes(range(256)) * 2
    assert Encoder().encode("chain", 1, noise[:200]) == (RAW, None, noise[:200])
    assert Encoder().encode("chain", 1, b"{}") == (RAW, None, b"{}")


def test_forgotten_chain_begins_with_a_keyframe() -> None:
    encoder = Encoder()
    encoder.encode("chain", 1, state_document(1))
    encoder.forget()
    assert encoder.encode("chain", 2, state_document(2))[0] == KEYFRAME


def test_chains_do_not_lean_on_each_other() -> None:
    encoder = Encoder()
    encoder.encode("one", 1, state_document(1))
    assert encoder.encode("other", 2, state_document(1))[0] == KEYFRAME


@pytest.mark.parametrize("wrong_size", [0, 10, 10**9])
def test_payload_of_another_size_is_corrupt(wrong_size: int) -> None:
    encoding, _, stored = Encoder().encode("chain", 7, state_document(1))
    with pytest.raises(Corrupt) as damage:
        decode_alone(7, encoding, stored, wrong_size)
    assert damage.value.details["position"] == 7


def test_small_frame_cannot_blow_up_memory() -> None:
    bomb = Encoder().encode("chain", 1, b" " * 50_000_000)[2]
    assert len(bomb) < 10_000
    with pytest.raises(Corrupt):
        decode_alone(1, KEYFRAME, bomb, 1000)


def test_unknown_encoding_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="unknown payload encoding 9"):
        decode_alone(1, 9, b"", 0)


def test_many_chains_at_once_still_patch_and_come_back() -> None:
    """More recorders than compressors are kept: each chain goes on leaning on its own keyframe."""
    encoder = Encoder()
    stored, sent = {}, {}
    for position in range(1, 601):
        data = state_document(position // 200, participants=1 + position % 200 % 7)
        sent[position] = data
        stored[position] = (encoder.encode(position % 200, position, data), len(data))
    assert [encoding for (encoding, _, _), _ in stored.values()].count(PATCH) == 400
    assert all(decode(stored, position) == data for position, data in sent.items())
