"""Lists to their end: `--limit 0` reads every page, and prints lines as they are read."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.cli import lists
from holdfast.cli.commands import task
from tests.acceptance.cli_support import Done, run_inside

TASKS = 7
List = Callable[..., Done]


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A store with more tasks than a page has here."""
    queue = TaskQueue(f"sqlite:///{tmp_path}/holdfast.db")

    @queue.task(name="none")
    async def nothing() -> None:
        return None

    await queue.open()
    await queue.enqueue_many([{"type": "none", "delay": 3_600}] * TASKS)
    await queue.stop()
    return f"sqlite:///{tmp_path}/holdfast.db"


@pytest.fixture
def listed(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> List:
    monkeypatch.setattr(lists, "PAGE_MAX", 3)

    def run(*args: str, out: io.StringIO | None = None) -> Done:
        return run_inside(tmp_path, *args, "--url", url, out=out)

    return run


@pytest.mark.parametrize("query", [(), ("-q", "type:none"), ("-q", "type:none -status:failed")])
def test_every_page_is_printed(listed: List, query: tuple[str, ...]) -> None:
    names = listed("task", "list", *query, "--limit", "0", "-o", "name").out.split()
    assert len(set(names)) == len(names) == TASKS
    lines = listed("task", "list", *query, "--limit", "0", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == names
    document = json.loads(listed("task", "list", *query, "--limit", "0", "-o", "json").out)
    assert [row["id"] for row in document] == names
    table = listed("task", "list", *query, "--limit", "0")
    assert [line.split()[0] for line in table.out.splitlines()] == ["ID", *names]
    assert table.said == ""


def test_a_page_says_where_the_list_goes_on(listed: List) -> None:
    first = listed("task", "list", "--limit", "2")
    after = first.said.split("--after ")[1].strip()
    rest = listed("task", "list", "--limit", "0", "-o", "name", "--after", after).out.split()
    assert len(rest) == TASKS - 2


def test_an_empty_list_says_so_once(listed: List) -> None:
    assert listed("dlq", "list", "--limit", "0") == (0, "", "no dead letters\n")
    assert listed("dlq", "list", "--limit", "0", "-o", "jsonl") == (0, "", "")
    assert listed("token", "list", "--limit", "0", "-o", "json").out == "[]\n"


def test_a_limit_below_none_is_refused(listed: List) -> None:
    for command in ("task list", "dlq list", "host list", "audit list", "job list", "sync log"):
        assert listed(*command.split(), "--limit", "-1").code == 2, command


async def register(url: str) -> None:
    """A worker that knows the type."""
    queue = TaskQueue(url)
    queue.register_handler("none", print)
    async with queue:
        pass


def test_whole_tasks_are_exported_and_enqueued_again(
    listed: List, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(register(url))
    monkeypatch.setattr(task, "BODIES_MAX", 3)
    lines = listed("task", "list", "--bodies", "--limit", "0", "-o", "jsonl").out.splitlines()
    rows = [json.loads(line) for line in lines]
    names = listed("task", "list", "--limit", "0", "-o", "name").out.split()
    assert [row["id"] for row in rows] == names
    assert all({"payload", "result", "options"} <= set(row) for row in rows)
    some = listed("task", "list", "--bodies", "--limit", "5", "-o", "json", "-q", "type:none")
    assert [row["id"] for row in json.loads(some.out)] == names[:5]
    kept = ("type", "payload", "queue", "priority", "metadata", "tags")
    again = "\n".join(json.dumps({name: row[name] for name in kept}) for row in rows)
    (tmp_path / "tasks.jsonl").write_text(again)
    assert listed("task-group", "enqueue", "tasks.jsonl", "--id", "again").code == 0
    assert len(listed("task", "list", "--limit", "0", "-o", "name").out.split()) == 2 * TASKS


def test_whole_tasks_are_for_programs(listed: List) -> None:
    refused = listed("task", "list", "--bodies")
    assert (refused.code, refused.out) == (2, "")
    assert "--bodies is for -o json and -o jsonl" in refused.said


def test_tasks_of_stdin_have_any_text(
    listed: List, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs write the line separators of Unicode as they are."""
    asyncio.run(register(url))
    line = json.dumps({"type": "none", "payload": "a\u2028b\x85c"}, ensure_ascii=False)
    for more in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\r\n\n{line}\n"))
        made = listed("task-group", "enqueue", *more, "-o", "json")
        assert (made.code, json.loads(made.out)["size"]) == (0, 2), made.said
    monkeypatch.setattr("sys.stdin", io.StringIO("{"))
    assert "line 1 of stdin is not JSON" in listed("task-group", "enqueue", "-").said
