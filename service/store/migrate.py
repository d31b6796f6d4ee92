"""Bringing a database to the schema of this code, by Alembic, inside the caller's transaction.

The revisions live in `migrations/` at the top of the source tree and in `service/store/migrations` of a wheel.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from service.errors import SetupError


def upgrade(connection: sa.Connection) -> None:
    """Apply every missing revision. Raises SetupError for a database that newer code has written."""
    config = alembic_config(connection)
    current, newest = _revisions(config, connection)
    if current == newest:
        return
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise _too_new(current)
    command.upgrade(config, "head")


def check(connection: sa.Connection) -> None:
    """Raise SetupError unless the database has exactly the schema of this code; changes nothing."""
    current, newest = _revisions(alembic_config(connection), connection)
    if current is None or current != newest:
        raise SetupError(
            f"the store's schema is {current or 'empty'}, this code reads {newest}; open it once with `retrace serve`"
        )


def alembic_config(connection: sa.Connection) -> Config:
    """Alembic's settings for one open connection."""
    config = Config()
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _revisions(config: Config, connection: sa.Connection) -> tuple[str | None, str | None]:
    current = MigrationContext.configure(connection).get_current_revision()
    return current, ScriptDirectory.from_config(config).get_current_head()


def _folder() -> Path:
    here = Path(__file__).parent
    for folder in (here / "migrations", here.parent.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise SetupError("the migrations are missing from this installation; install the package again")


def _too_new(revision: str) -> SetupError:
    return SetupError(f"the store was written by newer code (schema {revision}); use that release or a newer one")
