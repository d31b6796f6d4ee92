"""Alembic's entry: runs the revisions on the connection that the store hands over, inside its transaction."""

from alembic import context

from service.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
    compare_server_default=True,
)
context.run_migrations()
