"""The tables of journal.db."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from typing import Final

APPLICATION_ID: Final = 0x53504543  # "SPEC"
SCHEMA_VERSION: Final = 4
MAX_SLOT: Final = 2**32 - 2
TABLES: Final = ("memories", "vectors", "events", "meta", "checkpoint")

# memory_tags has no foreign key: SQLite would then look for children by slot, which is not the
# first column of its key. Its rows are compared with the memories on open instead.
SCHEMA: Final = """
CREATE TABLE meta(
  key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE totals(
  name TEXT PRIMARY KEY, count INTEGER NOT NULL, crc_sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE memories(
  slot INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
  context TEXT, type TEXT NOT NULL, source TEXT NOT NULL, session TEXT, author TEXT,
  timestamp INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
  tags TEXT NOT NULL, metadata TEXT NOT NULL, about TEXT NOT NULL, importance REAL NOT NULL,
  surprise REAL NOT NULL, valence INTEGER NOT NULL, arousal INTEGER NOT NULL,
  flags INTEGER NOT NULL, entities TEXT NOT NULL, recalls INTEGER NOT NULL,
  strength REAL NOT NULL, passive INTEGER NOT NULL, last_passive INTEGER NOT NULL,
  suppressed TEXT, crc INTEGER NOT NULL
) STRICT;
CREATE TABLE vectors(
  slot INTEGER NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, content INTEGER NOT NULL,
  data BLOB NOT NULL, crc INTEGER NOT NULL, UNIQUE(slot, kind)
) STRICT;
CREATE INDEX vectors_by_content ON vectors(content, kind);
CREATE INDEX memories_by_time ON memories(timestamp);
CREATE INDEX memories_by_type ON memories(type, timestamp);
CREATE INDEX memories_by_author ON memories(author, timestamp) WHERE author IS NOT NULL;
CREATE TABLE memory_tags(
  tag TEXT NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY(tag, slot)
) STRICT, WITHOUT ROWID;
CREATE TABLE events(
  seq INTEGER PRIMARY KEY, type INTEGER NOT NULL, at INTEGER NOT NULL, slot INTEGER NOT NULL,
  payload TEXT, crc INTEGER NOT NULL
) STRICT;
CREATE TABLE checkpoint(
  part TEXT NOT NULL, place INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL,
  UNIQUE(part, place)
) STRICT;
"""

SCHEMA_QUERY: Final = "SELECT type, name, sql FROM sqlite_schema"


@functools.cache
def expected_schema() -> frozenset[tuple[str, str, str | None]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(SCHEMA)
        return frozenset(fresh.execute(SCHEMA_QUERY))
