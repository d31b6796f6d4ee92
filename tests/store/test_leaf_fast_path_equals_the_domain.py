"""The writer's leaf bytes are those of `service.domain.envelope.leaf_bytes`, for every envelope."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from service.domain.envelope import NewEvent, Source, StoredEvent, leaf_bytes
from service.domain.times import format_us
from service.store.leaves import leaf_bytes_of, moment_text

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
numbers = st.integers(0, 2**63 - 1)
moments = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@given(
    event=st.builds(
        NewEvent, id=st.uuids().map(str), type=texts, schema_version=numbers, stream=texts, observed_at_us=moments,
        source=st.builds(Source, recorder=texts, seq=numbers, site=texts), data=st.binary(max_size=50),
        correlation_id=st.none() | texts, causation_id=st.none() | texts, salt=st.none() | st.binary(max_size=16),
    ),
    position=numbers, stream_position=numbers, recorded_at_us=moments,
)  # fmt: skip
def test_leaf_bytes_are_equal(event: NewEvent, position: int, stream_position: int, recorded_at_us: int) -> None:
    digest = sha256(event.data).digest()
    stored = StoredEvent(position, stream_position, recorded_at_us, digest.hex(), len(event.data), event)
    recorded_at = moment_text(recorded_at_us)
    assert recorded_at == format_us(recorded_at_us)
    assert leaf_bytes_of(event, position, stream_position, recorded_at, digest) == leaf_bytes(stored)
