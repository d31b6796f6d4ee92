"""The log's tables as plain functions on an open transaction: tiles, and the heads that were signed.

Kept here because this room writes the database; what a head means and when it may be signed is `service.audit.log`.
"""

import sqlalchemy as sa

from service.store.schema import events, tiles, tree_heads


def size_of_log(connection: sa.Connection) -> int:
    """How many leaves the log has: the newest position."""
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(events.c.position), 0))).scalar_one())


def read_tile(connection: sa.Connection, level: int, tile_index: int) -> bytes:
    """The hashes of one tile, concatenated; empty when there is none."""
    query = sa.select(tiles.c.hashes).where(tiles.c.level == level, tiles.c.tile_index == tile_index)
    return bytes(connection.execute(query).scalar() or b"")


def newest_head(connection: sa.Connection) -> str | None:
    """The note of the largest head that was signed."""
    return connection.execute(sa.select(tree_heads.c.note).order_by(tree_heads.c.size.desc()).limit(1)).scalar()


def keep_head(connection: sa.Connection, size: int, root: bytes, note: str, signed_at_us: int) -> None:
    """Keep a signed head; for the same size it takes the place of the one before (a key was rotated)."""
    connection.execute(sa.delete(tree_heads).where(tree_heads.c.size == size))
    row = {"size": size, "root": root, "note": note, "signed_at_us": signed_at_us}
    connection.execute(sa.insert(tree_heads).values(row))
