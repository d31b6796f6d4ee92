"""Events with their interned names, the log's tiles, and the heads that were signed.

Revision: 0001
Follows: nothing
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

integer64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "streams",
        sa.Column("id", integer64, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_streams"),
        sa.UniqueConstraint("name", name="uq_streams_name"),
    )
    op.create_table(
        "event_types",
        sa.Column("id", integer64, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_event_types"),
        sa.UniqueConstraint("name", name="uq_event_types_name"),
    )
    op.create_table(
        "sources",
        sa.Column("id", integer64, autoincrement=False, nullable=False),
        sa.Column("recorder", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sources"),
        sa.UniqueConstraint("recorder", "site", name="uq_sources_recorder_site"),
    )
    op.create_table(
        "events",
        sa.Column("position", integer64, autoincrement=False, nullable=False),
        sa.Column("event_id", sa.LargeBinary(), nullable=False, comment="the UUID's 16 bytes"),
        sa.Column("stream_id", integer64, nullable=False),
        sa.Column("stream_position", integer64, nullable=False),
        sa.Column("type_id", integer64, nullable=False),
        sa.Column("source_id", integer64, nullable=False),
        sa.Column("seq", integer64, nullable=False),
        sa.Column("schema_version", integer64, nullable=False),
        sa.Column("observed_at_us", integer64, nullable=False),
        sa.Column("recorded_at_us", integer64, nullable=False, comment="never falls from one position to the next"),
        sa.Column("correlation_id", sa.Text(), nullable=True),
        sa.Column("causation_id", sa.Text(), nullable=True),
        sa.Column("data_sha256", sa.LargeBinary(), nullable=False, comment="32 bytes, over salt and data"),
        sa.Column("data_size", integer64, nullable=False),
        sa.Column(
            "salt", sa.LargeBinary(), nullable=True, comment="null: not salted; empty: salted, and the salt was erased"
        ),
        sa.Column("encoding", sa.SmallInteger(), nullable=False, comment="0 raw, 1 zstd, 2 zstd patch"),
        sa.Column("keyframe", integer64, nullable=True, comment="position of the event that a patch leans on"),
        sa.Column("payload", sa.LargeBinary(), nullable=True, comment="null: erased"),
        sa.PrimaryKeyConstraint("position", name="pk_events"),
        sa.UniqueConstraint("event_id", name="uq_events_event_id"),
        sa.UniqueConstraint("stream_id", "stream_position", name="uq_events_stream_id_stream_position"),
    )
    op.create_table(
        "tiles",
        sa.Column("level", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("tile_index", integer64, autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False, comment="1 to 256 hashes of 32 bytes"),
        sa.PrimaryKeyConstraint("level", "tile_index", name="pk_tiles"),
    )
    op.create_table(
        "tree_heads",
        sa.Column("size", integer64, autoincrement=False, nullable=False),
        sa.Column("root", sa.LargeBinary(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False, comment="the signed note (C2SP checkpoint)"),
        sa.Column("signed_at_us", integer64, nullable=False),
        sa.PrimaryKeyConstraint("size", name="pk_tree_heads"),
    )


def downgrade() -> None:
    for table in ("tree_heads", "tiles", "events", "sources", "event_types", "streams"):
        op.drop_table(table)
