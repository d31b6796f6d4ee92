"""Alembic's revisions against the tables of `service.store.schema`: no drift, and each step goes both ways."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from service.store import migrate
from service.store.engine import Database, SqliteDatabase
from service.store.postgres import PostgresDatabase
from service.store.schema import metadata
from tests.postgres_server import PostgresServer, installations


@pytest.fixture(params=["sqlite", *installations()])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        database: Database = SqliteDatabase(tmp_path / "events.sqlite")
        yield database
        database.close()
        return
    with PostgresServer(installations()[request.param]) as server:
        database = PostgresDatabase(server.new_database())
        yield database
        database.close()


def tables(connection: sa.Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def test_migrated_database_equals_the_schema(database: Database) -> None:
    with database.writing() as connection:
        migrate.upgrade(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_migrated_tables_are_those_that_the_schema_would_create(tmp_path: Path) -> None:
    """What Alembic's comparison does not look at (constraints, names): SQLite's own text of both."""
    statements = []
    for name, create in (("migrated", migrate.upgrade), ("created", metadata.create_all)):
        database = SqliteDatabase(tmp_path / f"{name}.sqlite")
        with database.writing() as connection:
            create(connection)
        database.close()
        with sqlite3.connect(tmp_path / f"{name}.sqlite") as connection_:
            rows = connection_.execute(
                "SELECT name, sql FROM sqlite_master WHERE tbl_name NOT LIKE 'alembic%'"
            ).fetchall()
        connection_.close()
        statements.append({table: sorted(" ".join((sql or "").split()).split(", ")) for table, sql in rows})
    assert statements[0] == statements[1]


def test_each_revision_goes_up_down_and_up_again(database: Database) -> None:
    with database.writing() as connection:
        config = migrate.alembic_config(connection)
        revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]
        for revision in revisions:
            command.upgrade(config, revision)
            command.downgrade(config, "-1")
            command.upgrade(config, revision)
        assert tables(connection) == set(metadata.tables) | {"alembic_version"}
        command.downgrade(config, "base")
        assert tables(connection) == {"alembic_version"}


def test_upgrading_twice_changes_nothing(database: Database) -> None:
    for _ in range(2):
        with database.writing() as connection:
            migrate.upgrade(connection)
            migrate.check(connection)
