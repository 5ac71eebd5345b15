"""Commands that change tasks: what they change, and what they refuse."""

import json
import os
import pty
import re
from pathlib import Path

import pytest

from holdfast.cli.session import actor
from tests.acceptance.cli_support import HOLDFAST, Cli, Stock, stocked


@pytest.fixture
async def stock(tmp_path: Path) -> Stock:
    return await stocked("sqlite:///" + str(tmp_path / "holdfast.db"))


@pytest.fixture
def cli(tmp_path: Path, stock: Stock) -> Cli:
    return Cli(tmp_path)


def test_cancel_takes_ids_from_stdin(cli: Cli, stock: Stock) -> None:
    ids = cli.ok("task", "list", "--status", "queued", "-o", "name")
    assert (
        cli.ok("task", "cancel", "-", "--reason", "no longer", input=ids).split()[0] == stock.later
    )
    events = cli.see("task", "history", stock.later)
    event = next(event for event in events if event["kind"] == "task.aborted")
    assert (event["kind"], event["data"]["reason"]) == ("task.aborted", "no longer")
    assert cli.see("task", "show", stock.child)["error"].startswith(f"dependency {stock.later}")
    lines = [" ".join(line.split()) for line in cli.ok("task", "show", stock.later).splitlines()]
    assert next(line for line in lines if "aborted by" in line).endswith(": no longer")
    assert "it was aborted: by cli:" in cli.ok("task", "why", stock.later)
    assert ": no longer" in cli.ok("task", "list", "--status", "aborted", COLUMNS="300")
    line = json.dumps({"id": stock.done})
    assert "illegal-transition" in cli.fails(6, "task", "cancel", "-", input=line)


def test_many_changes_have_an_answer_each(cli: Cli, stock: Stock) -> None:
    done = cli.run("task", "cancel", stock.later, stock.done, "nothing", "-o", "json")
    assert done.returncode == 3
    assert [task["id"] for task in json.loads(done.stdout)] == [stock.later]
    problems = [json.loads(line) for line in done.stderr.splitlines()]
    assert [problem["code"] for problem in problems] == ["illegal-transition", "not-found"]
    assert [problem["status"] for problem in problems] == [409, 404]


def test_a_waiting_task_is_held_and_one_that_has_ended_is_not(cli: Cli, stock: Stock) -> None:
    assert "illegal-transition" in cli.fails(6, "task", "resume", stock.later)
    cli.ok("task", "pause", stock.later)
    assert "held by" in cli.ok("task", "why", stock.later)
    cli.ok("task", "resume", stock.later)
    assert "illegal-transition" in cli.fails(6, "task", "pause", stock.done)
    assert cli.fails(2, "task", "pause").startswith("error[usage]: no task is given")


def test_an_ambiguous_prefix_is_refused(cli: Cli, stock: Stock) -> None:
    common = stock.dead[0][:9]  # the same minute
    assert "several tasks start with" in cli.fails(2, "task", "show", common)
    assert cli.see("task", "show", stock.dead[0][:-2])["id"] == stock.dead[0]


def test_dead_letters_are_edited_replayed_and_discarded(cli: Cli, stock: Stock) -> None:
    first, second, third = stock.dead
    had = cli.see("task", "show", first)["payload"]
    assert set(had) == {"n"}
    assert "has the field 'note'" in cli.fails(2, "dlq", "edit", first, "note=x")
    assert "has no field 'n'" in cli.fails(2, "dlq", "edit", first, "--json", "{}")
    shown = cli.ok("dlq", "edit", first, "n=7")
    assert "- n" in shown
    assert str(had["n"]) in shown
    assert cli.json("dlq", "edit", first, "--replace", "n=6")["payload"] == {"n": 6}
    assert cli.json("dlq", "edit", first, "--json", '{"n":9}')["payload"] == {"n": 9}
    assert cli.ok("dlq", "replay", first) == f"{first}  queued again"
    assert cli.see("task", "show", first)["payload"] == {"n": 9}
    assert cli.json("dlq", "replay", second, "--json", '{"n": 8}')[0]["payload"] == {"n": 8}
    assert "it is not a dead letter" in cli.fails(6, "dlq", "replay", first)
    assert "it is not a dead letter" in cli.fails(6, "dlq", "discard", stock.done)
    assert "not a dead letter" in cli.fails(6, "dlq", "show", stock.done)
    assert cli.ok("dlq", "discard", third).endswith("discarded")
    assert cli.see("task", "show", third)["status"] == "aborted"
    assert cli.see("dlq", "list") == []


def test_bulk_changes_need_a_confirmation(cli: Cli) -> None:
    assert "no dead letter is given" in cli.fails(2, "dlq", "replay")
    refused = cli.fails(2, "dlq", "replay", "--type", "boom")
    assert "Replay 3 dead letters?" in refused
    assert "--dry-run to count first" in refused
    assert cli.json("dlq", "replay", "--type", "boom", "--dry-run") == {"count": 3, "dry_run": True}
    assert len(cli.see("dlq", "list")) == 3
    assert cli.json("dlq", "replay", "--type", "boom", "--limit", "1", "--yes")["count"] == 1
    assert cli.json("dlq", "discard", "--all", "--yes")["count"] == 2
    assert cli.json("dlq", "discard", "--all", "--yes")["count"] == 0


def test_a_command_advises_only_options_that_it_has(cli: Cli) -> None:
    refused = cli.fails(2, "db", "new-epoch")
    assert "give --yes" in refused
    for option in re.findall(r"--[a-z-]+", refused):
        assert option in cli.ok("db", "new-epoch", "--help")


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", 0), (b"n\n", 3)])
def test_a_terminal_is_asked_for_confirmation(cli: Cli, answer: bytes, left: int) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cli.folder)
        os.execve(HOLDFAST[0], [*HOLDFAST, "dlq", "discard", "--all"], cli.env)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(terminal, 1000)
    assert b"Discard 3 dead letters?" in seen
    os.write(terminal, answer)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == (0 if left == 0 else 1)
    assert len(cli.see("dlq", "list")) == left


def test_queues_are_paused_and_resumed(cli: Cli, stock: Stock) -> None:
    assert cli.ok("queue", "pause", "default", "--reason", "lunch") == "default  paused"
    [queue] = cli.json("queue", "list")
    assert (queue["paused_by"], queue["reason"]) == (actor(), "lunch")
    codes = [each["code"] for each in cli.see("task", "why", stock.later)["reasons"]]
    assert "queue-paused" in codes
    assert cli.json("queue", "resume", "default")["paused_at"] is None
    assert "not-found" in cli.fails(5, "queue", "resume", "other")


def test_schedules_are_added_listed_and_removed(cli: Cli) -> None:
    added = cli.json("schedule", "add", "nightly", "0 3 * * *", "add", "a=1", "b=2")
    assert (added["name"], added["payload"]) == ("nightly", {"a": 1, "b": 2})
    [listed] = cli.json("schedule", "list")
    assert listed == added
    assert "is not a cron expression" in cli.fails(2, "schedule", "add", "x", "61 * * * *", "add")
    assert cli.json("schedule", "pause", "nightly", "--reason", "noisy")["paused"] is True
    assert "paused" in cli.ok("schedule", "list")
    assert cli.json("schedule", "resume", "nightly")["paused"] is False
    assert cli.ok("schedule", "remove", "nightly") == "nightly  removed"
    assert "not-found" in cli.fails(5, "schedule", "pause", "nightly")
    assert "not-found" in cli.fails(5, "schedule", "remove", "nightly")


def test_a_replay_of_a_query_starts_no_dependent_before_its_parent(cli: Cli, stock: Stock) -> None:
    parent = stock.dead[0]
    child = cli.ok("enqueue", "add", "a=1", "b=2", "--depends-on", parent).strip()
    assert cli.see("task", "show", child)["status"] == "failed"
    query = ("-q", f"id:{parent},{child}")
    said = cli.ok("dlq", "replay", *query, "--yes")
    assert {line.split()[0] for line in said.splitlines()} == {parent, child}
    assert cli.see("task", "show", parent)["status"] == "queued"
    assert cli.see("task", "show", child)["status"] == "blocked"
    discarded = cli.run("dlq", "replay", child)
    assert (discarded.returncode, "illegal-transition" in discarded.stderr) == (6, True)
