"""Commands that read: every verb, on both stores, for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Cli, Stock, stocked
from tests.backends import SHARED, url_of


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def stock(url: str) -> Stock:
    return await stocked(url)


@pytest.fixture
def cli(tmp_path: Path, stock: Stock) -> Cli:
    return Cli(tmp_path, stock.url)


def test_tasks_are_listed_shown_and_explained(cli: Cli, stock: Stock) -> None:
    tasks = {task["id"]: task for task in cli.json("task", "list")}
    assert tasks[stock.done]["status"] == "completed"
    assert tasks[stock.done]["result_preview"] == "3"
    assert tasks[stock.done]["priority"] == "high"
    assert tasks[stock.done]["created_at"].endswith("Z")
    assert {tasks[each]["status"] for each in stock.dead} == {"failed"}

    page = cli.ok("task", "list", "--type", "boom", "--limit", "2", "-o", "name").split()
    rest = cli.ok("task", "list", "--type", "boom", "--after", page[-1], "-o", "name").split()
    assert page + rest == sorted(stock.dead, reverse=True)

    shown = cli.json("task", "show", stock.later)
    assert shown["dependents"] == [stock.child]
    assert shown["payload"] == {"a": 3, "b": 4}
    reasons = cli.json("task", "why", stock.child)["reasons"]
    assert [(each["code"], each["data"]["task_id"]) for each in reasons] == [
        ("dependency", stock.later)
    ]
    lines = cli.ok("task", "history", stock.done, "-o", "jsonl").splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["task.enqueued", "task.started", "task.completed"]


def test_dead_letters_are_listed_grouped_and_shown(cli: Cli, stock: Stock) -> None:
    listed = cli.ok("dlq", "list", "-o", "name").split()
    assert sorted(listed) == sorted(stock.dead)
    page = cli.ok("dlq", "list", "--limit", "1", "-o", "name").split()
    assert cli.ok("dlq", "list", "--after", page[0], "-o", "name").split() == listed[1:]

    [group] = cli.json("dlq", "groups")
    assert (group["count"], group["type"]) == (3, "boom")
    short = group["fingerprint"][:6]
    assert len(cli.json("dlq", "list", "--fingerprint", short)) == 3
    assert "ValueError: boom" in cli.ok("dlq", "show", stock.dead[0])


def test_queues_statistics_and_events(cli: Cli, stock: Stock) -> None:
    [queue] = cli.json("queue", "list")
    waiting = {"queued": 1, "blocked": 1, "failed": 3}
    assert (queue["name"], queue["counts"].items() >= waiting.items()) == ("default", True)
    stats = cli.json("stats")
    assert (stats["queued"], stats["dead_letter_count"], stats["nodes"]) == (1, 3, 0)
    assert stats["running"] == 0
    assert not {"pending", "processing", "pending_by_priority"} & stats.keys()
    assert stats["hints"]["pushing"] is True

    assert "did you mean task.dead?" in cli.fails(2, "events", "tail", "--kind", "task.deda")
    everything = cli.json("events", "tail", "--after", "start", "--limit", "0")
    offsets = [int(event["position"].rpartition(":")[2]) for event in everything]
    assert offsets == list(range(1, len(offsets) + 1))
    some = cli.json("events", "tail", "--after", everything[3]["position"], "--limit", "2")
    assert some == everything[4:6]
    assert cli.json("events", "tail", "--limit", "2") == everything[-2:]
    dead = cli.json("events", "tail", "--after", "start", "--kind", "task.dead")
    assert {event["task_id"] for event in dead} == set(stock.dead)
    found = cli.json("events", "tail", "-q", "kind:~DEAD actor:* age:<1h", "--limit", "2")
    assert found == [event for event in dead if event["data"].get("node")][-2:]


def test_doctor_shows_the_whole_path_of_a_file(tmp_path: Path) -> None:
    cli = Cli(tmp_path, "sqlite:///queue.db")
    cli.ok("db", "migrate")
    assert f"sqlite:///{tmp_path}/queue.db (from HOLDFAST_URL)" in cli.run("doctor", "-v").stdout


def test_doctor_reports_that_no_worker_is_live(cli: Cli) -> None:
    done = cli.run("doctor", "-o", "json")
    levels = {check["name"]: check["level"] for check in json.loads(done.stdout)}
    assert done.returncode == 1
    # The PostgreSQL of the tests runs without fsync.
    durability = levels.pop("durability")
    assert durability == ("ok" if cli.env["HOLDFAST_URL"].startswith("sqlite") else "warn")
    assert levels.pop("disk", None) in ("ok", "warn", None)  # as full as that of this machine
    assert levels == {
        "store": "ok",
        "schema": "ok",
        "task types": "ok",
        "queues of workers": "ok",
        "hints": "ok",
        "nodes": "fail",
        "handlers": "ok",
        "types": "ok",
        "projects": "ok",
        "waiting": "ok",
        "dead letters": "warn",
        "pauses": "ok",
        "schedules": "ok",
        "clock": "ok",
        "leases": "ok",
        "agents": "ok",
        "slots": "ok",
        "outbox": "ok",
    }
