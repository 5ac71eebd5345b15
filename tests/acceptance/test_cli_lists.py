"""Lists to their end: `--limit 0` reads every page, and prints lines as they are read."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.cli import lists
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
