"""Every command of the tree has the options of its kind, from one place."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from holdfast.cli.options import Common
from holdfast.cli.run import load
from holdfast.cli.signature import options_of
from holdfast.cli.tree import VERBS
from holdfast.cli.verb import Kind, Verb
from tests.acceptance.cli_support import run_inside

NO_REASON = {
    "enqueue": "the task itself is its record",
    "task-group enqueue": "the tasks are their record",
    "sync fix-expired-locks": "the sweeper does the same by itself",
    "db migrate": "it changes tables, which the audit is one of",
    "db new-epoch": "it changes the feed, not an object",
    "db backup": "it changes nothing in the store",
    "db restore": "the audit is replaced with the store",
}
"""Changes that are recorded without a reason, and why."""
NO_OUTPUT = {"version": "one line for people", "completion": "a program for a shell"}
VERSIONED = {
    "task",
    "dlq",
    "decision",
    "conflict",
    "job",
    "host",
    "group",
    "block",
    "webhook",
    "queue",
}
"""Nouns whose objects have a version that the API compares."""
NO_VERSION = {
    "task copy": "it changes no object",
    "host add": "the object is new",
    "host label": "it is about many hosts",
    "host import": "it is about many hosts",
    "group add": "the object is new",
    "block add": "the object is new",
    "webhook add": "the object is new",
    "webhook remove": "the API removes by id only",
}


def options(verb: Verb) -> set[str]:
    """The names of the options of a command, as they are typed."""
    return {name for option in options_of(load(verb)) for name in option.names}


def of_kind(*kinds: Kind) -> list[str]:
    return [verb.path for verb in VERBS if verb.kind in kinds]


BY_PATH = {verb.path: verb for verb in VERBS}


@pytest.mark.parametrize("path", of_kind(Kind.LIST, Kind.SHOW, Kind.WRITE))
def test_a_command_prints_in_every_format(path: str) -> None:
    if path in NO_OUTPUT:
        return
    hints = inspect.signature(load(BY_PATH[path])).parameters
    assert any(isinstance(each.default, Common) for each in hints.values()), path


@pytest.mark.parametrize("path", of_kind(Kind.LIST))
def test_a_list_takes_a_query(path: str) -> None:
    assert {"--query", "-q"} <= options(BY_PATH[path])


@pytest.mark.parametrize("path", of_kind(Kind.WRITE))
def test_a_change_has_a_dry_run_and_a_reason(path: str) -> None:
    found = options(BY_PATH[path])
    assert "--dry-run" in found
    assert ({"--reason", "-m"} <= found) is (path not in NO_REASON)


@pytest.mark.parametrize("path", of_kind(Kind.WRITE))
def test_a_change_of_an_object_with_a_version_can_name_it(path: str) -> None:
    noun = path.split(maxsplit=1)[0]
    is_versioned = noun in VERSIONED and " " in path and path not in NO_VERSION
    assert "--expect-version" in options(BY_PATH[path]) or not is_versioned


@pytest.mark.parametrize(
    "path",
    ["op run", *(p for p in of_kind(Kind.WRITE) if p.startswith(("dlq r", "dlq d")))],
)
def test_a_change_of_many_takes_a_query(path: str) -> None:
    assert "-q" in options(BY_PATH[path])


BULK = ("cancel", "pause", "resume", "abort", "retry", "reassign", "release", "force")


@pytest.mark.parametrize("verb", BULK)
def test_a_change_of_tasks_takes_ids_or_a_query(verb: str) -> None:
    assert {"-q", "--yes"} <= options(BY_PATH[f"task {verb}"])


@pytest.mark.parametrize("path", [path for path in of_kind(Kind.LIST) if path != "host list"])
def test_a_query_may_begin_with_a_minus(tmp_path: Path, path: str) -> None:
    """A minus means not. The command is refused for its store, not for its options."""
    needs = {"task": ["id"], "job": ["job"], "webhook": ["id"]} if not path.endswith("list") else {}
    noun = path.split(maxsplit=1)[0]
    ids = ["type"] if path == "weight list" else [] if path in NO_ID else needs.get(noun, [])
    done = run_inside(tmp_path, *path.split(), *ids, "-q", "-x:1", "--url", "sqlite:///none.db")
    assert "requires an argument" not in done.said
    assert "nknown option" not in done.said


NO_ID = {"task list", "job list", "webhook list"}
