"""Every verb, on a store and through a gateway of the same store: the same output, exit code and audit."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import apsw
import pytest

from holdfast.cli.tree import BY_PATH
from holdfast.cli.verb import Kind
from tests.acceptance.both_ways.answers import differences, normal, words
from tests.acceptance.both_ways.cases import CASES, ELSEWHERE, LOCAL, NOT_AUDITED, SIDES
from tests.acceptance.both_ways.world import World


def test_every_verb_has_an_entry() -> None:
    """A new verb is compared, or says why it does not go through a gateway."""
    assert set(CASES) | LOCAL | set(ELSEWHERE) == set(BY_PATH)
    assert not set(CASES) & (LOCAL | set(ELSEWHERE))


@pytest.mark.parametrize("noun", sorted({path.split()[0] for path in CASES}))
def test_the_store_and_the_gateway_answer_alike(world: World, noun: str) -> None:
    for path, texts in CASES.items():
        if path.split()[0] == noun:
            acts = [act for text in texts for act in compare(world, path, text.split())]
            assert bool(acts) == (not is_read(path) and path not in NOT_AUDITED), path


def compare(world: World, path: str, options: list[str]) -> list[str]:
    """Returns the audit rows that the verb has left."""
    args = [*path.split(), *options]
    if BY_PATH[path].kind is Kind.WRITE:
        compare_dry_runs(world, args)
    acts: list[list[str]] = [[], []]
    for output in ("table", "json") if is_read(path) else ("json",):
        sides: list[tuple[int, Any, Any]] = []
        for side, left in zip(SIDES, acts, strict=True):
            before = len(audited(world))
            sides.append(normal(world.run(side, *args, "-o", output), output))
            left += [words(act) for act in audited(world)[before:]]
        assert [*differences(sides[0], sides[1])] == [], f"{args} -o {output}"
        codes = [code for found in sides[0][2] for code in found]
        assert "internal" not in codes, f"{args} -o {output}"
    assert acts[0] == acts[1], args
    return acts[0]


def compare_dry_runs(world: World, args: list[str]) -> None:
    """A dry run is judged like the change, and leaves the whole store as it was."""
    dry = args if "--dry-run" in args else [*args, "--dry-run"]
    sides = []
    for side in SIDES:
        before = dumped(world)
        done = world.run(side, *dry, "-o", "json")
        sides.append(normal(done, "json"))
        # A revoke of a lock that is not held notes when it has looked, as every look at a lock does.
        is_free = done.code != 0 and dry[0] == "lock"
        assert is_free or dumped(world) == before, f"{dry} has changed the store"
    assert [*differences(sides[0], sides[1])] == [], dry


def dumped(world: World) -> list[str]:
    """All rows of the store, but for signs of life and for what any reader derives from the events."""
    with contextlib.closing(sqlite3.connect(world.url.removeprefix("sqlite:///"))) as connection:
        lines = list(connection.iterdump())
    return [line for line in lines if not line.startswith(DERIVED)]


DERIVED = (
    "DELETE FROM",
    'INSERT INTO "sqlite_sequence"',
    'INSERT INTO "holdfast_node"',
    'INSERT INTO "holdfast_counter"',
    'INSERT INTO "holdfast_feed_head"',
)


def audited(world: World) -> list[str]:
    """The operation and the subject of each audit row, in order."""
    connection = apsw.Connection(
        world.url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY
    )
    with contextlib.closing(connection):
        return [" ".join(row) for row in connection.execute(AUDITED)]


AUDITED = "SELECT operation, subject FROM holdfast_audit ORDER BY seq"


def is_read(path: str) -> bool:
    return path.rsplit(maxsplit=1)[-1] in READING


READING = {"list", "show", "why", "history", "groups", "tail", "status", "log", "verify", "stats",
           "interventions", "output", "checkpoints", "watch", "top", "wait", "logs", "export", "select",
           "plan", "executions", "deliveries", "rehearse",
           "openapi", "asyncapi"}  # fmt: skip
