"""Databases of PostgreSQL for tests, one after another.

A test gets the tables of Holdfast as a migration leaves them. To empty the tables that a test has filled
takes a quarter of the time of a copy of the template and its removal.

Promises: a database is used again only if nothing of the test before can be in it. One whose schema,
settings or statistics were changed, or in which sessions are left, is dropped. A session of this
module stays in one that is used again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, LiteralString, TypeAlias

import psycopg

from proof.lab.servers import POLL_SECONDS, Postgres

Admin: TypeAlias = "psycopg.Connection[tuple[object, ...]]"

USES_MAX: Final = 100
"""The catalog grows with each `TRUNCATE`, because nothing vacuums it."""
PARTING_POLLS: Final = 20
"""Looks for sessions that are ending: their clients have closed them, and the server follows."""

SEEDED = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
ORDER BY relname
"""
EMPTY = "SELECT lab.emptied()"
OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

WATCHED = """
CREATE SCHEMA lab;
CREATE TABLE lab.changed (tag text);
CREATE FUNCTION lab.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO lab.changed VALUES (tg_tag);
END $$;
"""
"""Any change of the schema leaves a row. `TRUNCATE` is none."""
WATCH = "CREATE EVENT TRIGGER lab_note ON ddl_command_end EXECUTE FUNCTION lab.note()"

EMPTIED = """
CREATE FUNCTION lab.emptied() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    filled text;
BEGIN
    IF EXISTS (SELECT FROM lab.changed)
        OR EXISTS (SELECT FROM pg_statistic WHERE starelid >= 16384)
        OR EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
            WHERE d.datname = current_database())
        OR EXISTS (SELECT FROM pg_database
            WHERE datname = current_database() AND (datconnlimit <> -1 OR datacl IS NOT NULL))
        OR EXISTS (SELECT FROM pg_prepared_xacts WHERE database = current_database())
    THEN
        RETURN false;
    END IF;
    SELECT string_agg(oid::regclass::text, ', ') INTO filled FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
        AND relname <> ALL (ARRAY[{names}]);
    IF filled IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || filled || ' RESTART IDENTITY';
        UPDATE pg_class SET relpages = 1, reltuples = 0
        WHERE relkind = 'i' AND relnamespace = 'public'::regnamespace AND reltuples = -1;
    END IF;
    PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence
    WHERE pg_sequence_last_value(seqrelid) IS NOT NULL;
    {seeds}
    RETURN true;
END $$;
"""
"""Empties the tables, and answers whether the database is as the template again. The planner uses the figures
that an index has had since it was made on an empty table, so an emptied index gets them back."""

SEED = """
    IF (SELECT string_agg(t::text, ' ' ORDER BY t::text) FROM public.{name} t)
        IS DISTINCT FROM (SELECT string_agg(t::text, ' ' ORDER BY t::text) FROM lab.kept_{name} t)
    THEN
        IF pg_relation_size('public.{name}') > 65536 THEN
            TRUNCATE public.{name};
        ELSE
            DELETE FROM public.{name};
        END IF;
        INSERT INTO public.{name} SELECT * FROM lab.kept_{name};
    END IF;
"""


def make_template(dsn: str) -> None:
    """Adds to a migrated database the function that empties it. Its copies have it too."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        names = [str(row[0]) for row in connection.execute(SEEDED)]
        connection.execute(WATCHED)
        for name in names:
            connection.execute(f"CREATE TABLE lab.kept_{name} AS TABLE public.{name}".encode())
        seeds = "".join(SEED.format(name=name) for name in names)
        texts = ", ".join(f"'{name}'" for name in names)
        connection.execute(EMPTIED.format(names=texts, seeds=seeds).encode())
        connection.execute(WATCH)


class Databases:
    """The databases of one server. Blocks: an event loop ends with its test."""

    def __init__(self, server: Postgres, admin: Admin, template: str) -> None:
        self._server = server
        self._admin = admin
        self._template = template
        self._numbers = itertools.count(1)
        self._name: str | None = None
        self._keeper: Admin | None = None
        """The session that empties the database that is used again."""
        self._uses = 0

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """A database with the empty tables of Holdfast."""
        name = self._name or self._copy(self._template)
        self._name = None
        self._uses += 1
        yield self._server.dsn(name)
        if self._uses < USES_MAX and self._is_clean(name):
            self._name = name
        else:
            self._drop(name)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """A new database without tables."""
        name = self._copy("template1")
        yield self._server.dsn(name)
        self._admin.execute(f"drop database {name} with (force)".encode())

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()

    def _copy(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        text = f"create database {name} template {template} strategy file_copy"
        self._admin.execute(text.encode())
        return name

    def _drop(self, name: str) -> None:
        self.close()
        self._keeper, self._uses = None, 0
        self._admin.execute(f"drop database {name} with (force)".encode())

    def _is_clean(self, name: str) -> bool:
        try:
            if self._keeper is None:
                self._keeper = psycopg.connect(self._server.dsn(name), autocommit=True)
            return is_alone(self._keeper) and ask(self._keeper, EMPTY) is True
        except psycopg.Error:  # the test has ended every session, or locked or removed a part
            return False


def ask(keeper: Admin, text: LiteralString) -> object:
    row = keeper.execute(text).fetchone()
    assert row is not None
    return row[0]


def is_alone(keeper: Admin) -> bool:
    """Whether all other sessions have ended. One that stays could write into the next test."""
    for _ in range(PARTING_POLLS):
        if ask(keeper, OTHERS) == 0:
            return True
        time.sleep(POLL_SECONDS)
    return False
