"""The tables of the event store and the log, and which name each constraint has. No statements and no logic here.

`events` holds one row per event, with compact columns; names that repeat are interned. There are no foreign keys:
the single writer adds a name before the event that uses it, and checking again would cost more than the insert.
`tiles` holds the Merkle tree (C2SP tlog-tiles layout), `tree_heads` every head that was ever signed. docs/formats.md
maps the bytes.
"""

import sqlalchemy as sa

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = sa.MetaData(naming_convention=NAMING)

Integer64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""64 bits on PostgreSQL; on SQLite plain INTEGER, which alone becomes the row id and needs no second tree."""


def _names(table: str, *columns: "sa.Column[str]") -> sa.Table:
    """A table of interned names: a small number for something that repeats in many events."""
    return sa.Table(
        table,
        metadata,
        sa.Column("id", Integer64, primary_key=True, autoincrement=False),
        *columns,
        sa.UniqueConstraint(*[column.name for column in columns]),
    )


streams = _names("streams", sa.Column("name", sa.Text, nullable=False))
event_types = _names("event_types", sa.Column("name", sa.Text, nullable=False))
sources = _names(
    "sources", sa.Column("recorder", sa.Text, nullable=False), sa.Column("site", sa.Text, nullable=False)
)  # fmt: skip

events = sa.Table(
    "events",
    metadata,
    sa.Column("position", Integer64, primary_key=True, autoincrement=False),
    sa.Column("event_id", sa.LargeBinary, nullable=False, comment="the UUID's 16 bytes"),
    sa.Column("stream_id", Integer64, nullable=False),
    sa.Column("stream_position", Integer64, nullable=False),
    sa.Column("type_id", Integer64, nullable=False),
    sa.Column("source_id", Integer64, nullable=False),
    sa.Column("seq", Integer64, nullable=False),
    sa.Column("schema_version", Integer64, nullable=False),
    sa.Column("observed_at_us", Integer64, nullable=False),
    sa.Column("recorded_at_us", Integer64, nullable=False, comment="never falls from one position to the next"),
    sa.Column("correlation_id", sa.Text),
    sa.Column("causation_id", sa.Text),
    sa.Column("data_sha256", sa.LargeBinary, nullable=False, comment="32 bytes, over salt and data"),
    sa.Column("data_size", Integer64, nullable=False),
    sa.Column("salt", sa.LargeBinary, comment="null: not salted; empty: salted, and the salt was erased"),
    sa.Column("encoding", sa.SmallInteger, nullable=False, comment="0 raw, 1 zstd, 2 zstd patch"),
    sa.Column("keyframe", Integer64, comment="position of the event that a patch leans on"),
    sa.Column("payload", sa.LargeBinary, comment="null: erased"),
    sa.UniqueConstraint("event_id"),
    sa.UniqueConstraint("stream_id", "stream_position"),
)

tiles = sa.Table(
    "tiles",
    metadata,
    sa.Column("level", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("tile_index", Integer64, primary_key=True, autoincrement=False),
    sa.Column("hashes", sa.LargeBinary, nullable=False, comment="1 to 256 hashes of 32 bytes"),
)

tree_heads = sa.Table(
    "tree_heads",
    metadata,
    sa.Column("size", Integer64, primary_key=True, autoincrement=False),
    sa.Column("root", sa.LargeBinary, nullable=False),
    sa.Column("note", sa.Text, nullable=False, comment="the signed note (C2SP checkpoint)"),
    sa.Column("signed_at_us", Integer64, nullable=False),
)
