"""`holdfast enqueue`: accepted and refused requests, and waiting for a result."""

import asyncio
import datetime as dt
import json
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.queue.views.values import known_time
from tests.acceptance.cli_support import Cli, Stock, run_inside, stocked


@pytest.fixture
async def stock(tmp_path: Path) -> Stock:
    return await stocked("sqlite:///" + str(tmp_path / "holdfast.db"))


@pytest.fixture
def cli(tmp_path: Path, stock: Stock) -> Cli:
    return Cli(tmp_path)


def test_a_payload_comes_as_pairs_or_as_json(cli: Cli) -> None:
    first = cli.ok("enqueue", "add", "a=1", "b=text", 'c=[1, {"d": null}]', "e=")
    assert cli.see("task", "show", first)["payload"] == {
        "a": 1,
        "b": "text",
        "c": [1, {"d": None}],
        "e": "",
    }
    second = cli.ok("enqueue", "add", "--json", "-", input='{"a": 1, "b": 2}')
    assert cli.see("task", "show", second)["payload"] == {"a": 1, "b": 2}


def test_options_reach_the_task(cli: Cli, stock: Stock) -> None:
    task = cli.json(
        "enqueue", "add", "a=1", "b=2", "--priority", "low", "--queue", "other", "--delay", "2h",
        "--max-attempts", "9", "--id", "my-own", "--metadata", "by=me", "--depends-on", stock.later,
        "--task-timeout", "1.5m",
    )  # fmt: skip
    assert task["id"] == "my-own"
    assert (task["priority"], task["queue"], task["max_attempts"]) == ("low", "other", 9)
    assert (task["status"], task["metadata"]) == ("blocked", {"by": "me"})
    due_at, created_at = known_time(task["due_at"]), known_time(task["created_at"])
    assert due_at - created_at == pytest.approx(7200)
    assert task["options"]["timeout_seconds"] == 90


def test_tags_and_metadata_find_the_task(cli: Cli) -> None:
    asked = ("enqueue", "add", "a=1", "b=2")
    task_id = cli.ok(*asked, "--tag", "vip", "--tag", "eu", "--meta", "tenant=acme").strip()
    query = "tag:vip meta.tenant:acme OR tag:none"
    assert cli.ok("task", "list", "-q", query, "--type", "add", "-o", "name").split() == [task_id]
    cli.ok("task", "edit", task_id, "--tag", "late", "--untag", "eu", "--reason", "r")
    assert cli.see("task", "show", task_id)["tags"] == ["late", "vip"]
    assert "late, vip" in cli.ok("task", "show", task_id)


def test_a_task_starts_at_a_moment(cli: Cli) -> None:
    task = cli.json("enqueue", "add", "a=1", "b=2", "--run-at", "2031-08-01T10:00+02:00")
    assert known_time(task["due_at"]) == dt.datetime(2031, 8, 1, 8, tzinfo=dt.UTC).timestamp()
    refused = cli.run("enqueue", "add", "a=1", "b=2", "--run-at", "2031-08-01T10:00")
    assert refused.returncode == 2
    assert "--run-at is '2031-08-01T10:00': write a time with its zone" in refused.stderr


def test_a_window_has_one_task(cli: Cli) -> None:
    asked = ("enqueue", "add", "--unique", "ended", "--unique-by", "a", "b=2")
    first = cli.ok(*asked, "a=7")
    assert cli.ok(*asked, "a=7", "c=3") == first
    assert cli.ok(*asked, "a=8") != first
    assert cli.ok("enqueue", "add", "a=7", "--unique", "1h") != first
    refused = cli.run("enqueue", "add", "a=7", "--unique-by", "a")
    assert refused.returncode == 2
    assert "--unique-by needs --unique" in refused.stderr


async def test_a_task_gets_its_time_without_progress(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'slow.db'}"
    queue = TaskQueue(url)
    queue.register_handler("add", lambda task: None)
    async with queue:
        task_id = await asyncio.to_thread(
            Cli(tmp_path, url).ok, "enqueue", "add", "--progress-timeout", "2m"
        )
        task = await queue.get_task(task_id)
        assert task is not None
        assert task.progress_timeout_seconds == 120


def test_a_repeated_request_is_answered_not_repeated(cli: Cli) -> None:
    request = ("enqueue", "add", "a=1", "b=2", "--idempotency-key", "k")
    assert cli.ok(*request) == cli.ok(*request)
    other = cli.fails(6, "enqueue", "add", "a=1", "b=3", "--idempotency-key", "k")
    assert other.startswith("error[idempotency-conflict]")


async def test_the_command_makes_the_same_task_as_python(tmp_path: Path) -> None:
    """Also for deduplication: the same key from either side is the same request."""
    url = f"sqlite:///{tmp_path / 'same.db'}"
    queue = TaskQueue(url)

    @queue.task(timeout=0.3, max_attempts=7, queue="slow")
    async def work(n: int) -> int:
        return n

    async with queue:
        mine = await queue.enqueue("work", {"n": 1}, idempotency_key="k")
        theirs = await asyncio.to_thread(
            Cli(tmp_path, url).ok, "enqueue", "work", "n=1", "--idempotency-key", "k"
        )
        assert theirs == mine.id
        other = await asyncio.to_thread(Cli(tmp_path, url).json, "enqueue", "work", "n=2")
        assert other["options"]["timeout_seconds"] == 0.3
        assert (other["max_attempts"], other["queue"]) == (7, "slow")


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("nope",), 2, "unknown-type"),
        (("ad",), 2, "did you mean add?"),
        (("add", "--progress-timeout", "soon"), 2, "write a duration"),
        (("add", "--priority", "urgent"), 2, "unknown-priority"),
        (("add", "--delay", "soon"), 2, "write a duration"),
        (("add", "--json", "{a"), 2, "is not JSON"),
        (("add", "words"), 2, "is not key=value"),
        (("add", "--depends-on", "nothing"), 5, "not-found"),
        (("add", "--timeout", "1"), 2, "--timeout needs --wait"),
        (("add", "--max-attempts", "0"), 2, "invalid-input"),
        ((), 2, "usage"),
    ],
)
def test_bad_requests_are_refused(
    stock: Stock, args: tuple[str, ...], code: int, word: str
) -> None:
    done = run_inside(Path.cwd(), "enqueue", *args, "--url", stock.url)
    assert done.code == code
    assert word in done.said


def test_a_forced_result_that_is_not_json_is_refused(stock: Stock) -> None:
    options = ["--status", "completed", "--reason", "computed by hand", "--url", stock.url]
    done = run_inside(Path.cwd(), "task", "force", "0199a1b2", "--result", "{bad", *options)
    assert done.code == 2
    assert "--result is not JSON" in done.said


def test_problems_are_objects_when_json_is_asked_for(cli: Cli) -> None:
    problem = json.loads(cli.fails(2, "enqueue", "nope", "-o", "json"))
    assert problem["code"] == "unknown-type"
    assert problem["exit"] == 2
    assert "nope" in problem["detail"]


def test_wait_prints_the_result(tmp_path: Path) -> None:
    cli = Cli(tmp_path, f"sqlite:///{tmp_path / 'live.db'}")
    with cli.worker() as worker:
        worker.ready()
        assert cli.ok("enqueue", "add", "a=20", "b=22", "--wait", "--timeout", "30s") == "42"
        assert cli.json("enqueue", "add", "a=1", "b=1", "--wait")["result"] == 2
        assert "error[task-failed]" in cli.fails(1, "enqueue", "boom", "n=1", "--wait")
        assert "error[wait-timeout]" in cli.fails(
            7, "enqueue", "hold", "--wait", "--timeout", "200ms"
        )
        assert cli.see("task", "why", "@last")["reasons"][0]["code"] == "running"
        assert cli.run("doctor").returncode == 0


async def test_arguments_are_checked_against_the_function(tmp_path: Path) -> None:
    """Without the code of the application: a worker has registered the type."""
    url = f"sqlite:///{tmp_path / 'typed.db'}"
    queue = TaskQueue(url)

    @queue.task
    async def remind(day: dt.date, times: int = 1) -> None: ...

    async with queue:
        cli = Cli(tmp_path, url)
        for given, why in (
            ([], "no field 'day'"),
            (["day=2026-01-01", "tims=2"], "'tims'"),
            (["day=2026-01-01", "times=two"], "payload.times is 'two'"),
        ):
            answer = await asyncio.to_thread(cli.fails, 2, "enqueue", "remind", *given)
            assert why in answer
        assert await asyncio.to_thread(cli.ok, "enqueue", "remind", "day=2026-01-01", "times=2")
