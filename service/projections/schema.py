"""Tables of `views.sqlite`, a file that can be deleted at any time, and connections to it.

Rows carry positions so that a view as of P is a filter. `fold` columns hold JSON compressed with zstd: JSON because it
keeps integers of any size digit for digit. There are no migrations: another VIEWS_FORMAT means folding anew.
"""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

_log = logging.getLogger(__name__)

VIEWS_FORMAT = 5
"""Raise it whenever a table or a fold changes: an older file is then thrown away and folded again."""

TABLES = """
CREATE TABLE projection_progress (
  view TEXT PRIMARY KEY, position INTEGER NOT NULL, quarantined INTEGER NOT NULL, digest BLOB NOT NULL,
  moved_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE quarantine (
  position INTEGER NOT NULL, view TEXT NOT NULL, stream TEXT NOT NULL, event_type TEXT NOT NULL, reason TEXT NOT NULL,
  attempts INTEGER NOT NULL, PRIMARY KEY (position, view)) WITHOUT ROWID;
CREATE INDEX quarantine_by_stream ON quarantine (stream, position);
CREATE TABLE jobs (
  first_position INTEGER NOT NULL, stream TEXT NOT NULL, site TEXT NOT NULL, PRIMARY KEY (stream, site)) WITHOUT ROWID;
CREATE INDEX jobs_by_position ON jobs (first_position);
CREATE TABLE live_folds (stream TEXT PRIMARY KEY, position INTEGER NOT NULL, fold BLOB NOT NULL);
CREATE TABLE fold_caches (stream TEXT NOT NULL, position INTEGER NOT NULL, fold BLOB NOT NULL);
CREATE UNIQUE INDEX fold_caches_by_stream ON fold_caches (stream, position);
CREATE TABLE recorder_runs (
  recorder TEXT PRIMARY KEY, site TEXT NOT NULL, first_position INTEGER NOT NULL, run TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE recorder_streams (
  stream TEXT NOT NULL, recorder TEXT NOT NULL, first_position INTEGER NOT NULL,
  PRIMARY KEY (stream, recorder)) WITHOUT ROWID;
CREATE TABLE recorder_gaps (
  recorder TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, opened_position INTEGER NOT NULL,
  opened_us INTEGER NOT NULL, heard_position INTEGER, heard_us INTEGER, closed_position INTEGER, closed_us INTEGER,
  PRIMARY KEY (recorder, first_seq, last_seq)) WITHOUT ROWID;
CREATE TABLE recorder_life (
  position INTEGER PRIMARY KEY, recorder TEXT NOT NULL, recorded_at_us INTEGER NOT NULL, type TEXT NOT NULL,
  data TEXT NOT NULL);
CREATE INDEX recorder_life_by_recorder ON recorder_life (recorder, position);
CREATE TABLE commands (
  called_id TEXT PRIMARY KEY, stream TEXT NOT NULL, site TEXT NOT NULL, recorder TEXT NOT NULL, name TEXT NOT NULL,
  first_position INTEGER NOT NULL, called_position INTEGER, called_us INTEGER, observed_us INTEGER, arguments TEXT,
  returned_position INTEGER, returned_us INTEGER, outcome TEXT, duration_ms REAL, error_code TEXT, error_message TEXT);
CREATE INDEX commands_by_stream ON commands (stream, site, first_position);
CREATE TABLE replays (
  replay_id TEXT PRIMARY KEY, stream TEXT NOT NULL, checkpoint_sha256 TEXT NOT NULL, first_position INTEGER NOT NULL,
  requested_position INTEGER, requested_us INTEGER, engine TEXT, round INTEGER, judged_position INTEGER,
  judged_us INTEGER, verdict TEXT, result TEXT);
CREATE INDEX replays_by_stream ON replays (stream, first_position);
CREATE INDEX replays_by_checkpoint ON replays (checkpoint_sha256, first_position);
CREATE TABLE artifacts (
  position INTEGER PRIMARY KEY, stream TEXT NOT NULL, role TEXT NOT NULL, sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL, round INTEGER, media_format TEXT, inspection TEXT, recorded_us INTEGER NOT NULL);
CREATE INDEX artifacts_by_stream ON artifacts (stream, role, position);
CREATE INDEX artifacts_by_sha256 ON artifacts (sha256, position);
CREATE TABLE checkpoint_reports (
  stream TEXT NOT NULL, site TEXT NOT NULL, digest BLOB NOT NULL, sha256 TEXT NOT NULL, parent_sha256 TEXT,
  round INTEGER, segment INTEGER NOT NULL, is_late INTEGER NOT NULL, is_owner INTEGER NOT NULL, recorder TEXT NOT NULL,
  position INTEGER NOT NULL, recorded_us INTEGER NOT NULL, observed_us INTEGER NOT NULL, word TEXT NOT NULL);
CREATE UNIQUE INDEX checkpoint_reports_by_digest ON checkpoint_reports (stream, site, digest);
CREATE INDEX checkpoint_reports_by_sha256 ON checkpoint_reports (sha256, position);
CREATE TABLE documents (
  position INTEGER PRIMARY KEY, type TEXT NOT NULL, stream TEXT NOT NULL, site TEXT NOT NULL, recorder TEXT NOT NULL);
CREATE INDEX documents_by_type ON documents (type, position);
CREATE INDEX documents_by_stream ON documents (stream, position);
CREATE TABLE intervals (
  stream TEXT NOT NULL, site TEXT NOT NULL, participant TEXT NOT NULL, subject TEXT NOT NULL, value TEXT,
  from_position INTEGER NOT NULL, from_us INTEGER NOT NULL, closed_position INTEGER NOT NULL, to_us INTEGER NOT NULL);
CREATE INDEX intervals_by_participant ON intervals (stream, site, participant, closed_position);
CREATE TABLE flags (
  stream TEXT NOT NULL, site TEXT NOT NULL, name TEXT NOT NULL, participant TEXT NOT NULL, subject TEXT NOT NULL,
  opened_position INTEGER NOT NULL, opened_us INTEGER NOT NULL, closed_position INTEGER NOT NULL,
  closed_us INTEGER NOT NULL, evidence TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX flags_by_job ON flags (stream, site, closed_position);
CREATE TABLE metrics (
  stream TEXT NOT NULL, site TEXT NOT NULL, sha256 TEXT NOT NULL, segment INTEGER NOT NULL, round INTEGER,
  split TEXT NOT NULL, name TEXT NOT NULL, said TEXT NOT NULL, value REAL, tag TEXT, reason TEXT,
  is_late INTEGER NOT NULL, recorder TEXT NOT NULL, position INTEGER NOT NULL, recorded_us INTEGER NOT NULL,
  observed_us INTEGER NOT NULL);
CREATE INDEX metrics_by_round ON metrics
  (stream, site, split, name, segment, round, observed_us, position, value, tag);
CREATE UNIQUE INDEX metrics_by_value ON metrics (stream, site, split, name, sha256, IFNULL(round, -1), said);
"""


def open_file(path: Path) -> sqlite3.Connection:
    """A connection to the views, in autocommit mode: transactions are begun in words."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def prepare(path: Path) -> None:
    """Make sure that `path` is a sound file of this VIEWS_FORMAT; any other is thrown away and folded anew."""
    if _is_usable(path):
        return
    remove_file(path)
    connection = open_file(path)
    create_tables(connection)
    connection.close()


def _is_usable(path: Path) -> bool:
    """Whether SQLite can open the file and it has this VIEWS_FORMAT's tables.

    Damage deeper inside is not looked for, as that costs a read of the whole file: `retrace rebuild` mends it.
    """
    if not path.exists():
        return False
    try:
        with closing(open_file(path)) as connection:
            is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            return is_current(connection) and not is_empty
    except sqlite3.DatabaseError as error:
        _log.warning("%s is damaged (%s); the views are folded anew from the events", path, error)
        return False


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file was written by this VIEWS_FORMAT."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == VIEWS_FORMAT)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file."""
    connection.executescript(f"BEGIN IMMEDIATE;{TABLES}PRAGMA user_version = {VIEWS_FORMAT};COMMIT;")


def remove_file(path: Path) -> None:
    """Delete a views file with what SQLite keeps beside it. No connection to it may be open."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
