"""`holdfast dev` end to end: what the sample has, how it ends, and what it leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.acceptance.cli_support import Cli
from tests.launcher import Child, launcher

STOP_SECONDS = 15.0
ADMIN = "hf_admin_" + "d" * 40


class Dev:
    """A `holdfast dev` that is up."""

    def __init__(self, child: Child, said: list[str]) -> None:
        self.child = child
        self.said = said
        self.url = said[0].split()[-1]
        headers = {"Authorization": f"Bearer {ADMIN}"}
        self.client = httpx2.Client(base_url=f"{self.url}/api/v1", headers=headers)

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def items(self, path: str) -> list[dict[str, Any]]:
        return list(self.get(path)["items"])

    def until(self, path: str, is_so: Callable[[Any], bool]) -> Any:
        """The answer of a path when it is so. The feed tells when to look again."""
        position = None
        while not is_so(body := self.get(path)):
            after = "" if position is None else f"&after={position}"
            position = self.get(f"/events?wait_seconds=5&limit=1000{after}")["next"]
        return body

    def word(self, name: str) -> str:
        """What it has printed behind a name."""
        return next(line.split()[1] for line in self.said if line.split()[:1] == [name])

    def stop(self) -> int:
        self.child.send_signal(signal.SIGINT)
        return self.child.wait(STOP_SECONDS)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    cli.env |= {"XDG_STATE_HOME": str(tmp_path / "state"), "HOLDFAST_ADMIN_TOKEN": ADMIN}
    return cli


@contextmanager
def running(cli: Cli, *options: str, until: str = "  sample ") -> Iterator[Dev]:
    """Up to the line that begins with `until`."""
    log = cli.folder / "stderr"
    with (
        log.open("w") as stderr,
        launcher().running(["dev", "--port", "0", *options], cli.folder, cli.env, stderr) as child,
    ):
        assert child.stdout is not None
        said = []
        for line in child.stdout:
            said.append(line)
            if line.startswith(until):
                break
        assert said, log.read_text()
        dev = Dev(child, said)
        with dev.client:
            yield dev
        assert log.read_text() == ""


def states(cli: Cli) -> list[Path]:
    return [*(cli.folder / "state" / "holdfast").iterdir()]


def test_the_sample_has_everything_that_a_person_can_try(cli: Cli) -> None:
    with running(cli) as dev:
        groups = dev.items("/dead-letters/groups")
        assert [(one["type"], one["count"]) for one in groups] == [
            ("email.send", 12),
            ("order.charge", 3),
        ]
        (decision,) = dev.items("/decisions?q=state:open")
        assert decision["question"].startswith("Close 2026-10")
        (conflict,) = dev.items("/conflicts?q=state:open")
        assert conflict["client_id"] == "price-list"
        paused = [one for one in dev.items("/queues") if one["paused_at"]]
        assert [(one["name"], one["paused_by"]) for one in paused] == [("reports", "user:mira")]
        assert sorted(one["name"] for one in dev.items("/schedules")) == [
            "cart.reminder",
            "newsletter.weekly",
            "report.nightly",
        ]
        (operation,) = dev.items("/operations")
        assert (operation["action"], operation["total"]) == ("abort", 8)
        (block,) = dev.items("/blocks")
        assert block["host"] == "sim-0042"
        (approval,) = dev.items("/approvals")
        assert approval["job"]["external_id"] == "postgres-minor"
        under_way = {one["external_id"]: one for one in dev.items("/jobs")}["nginx-certificates"]
        assert (under_way["hosts"], under_way["waves_total"]) == (1000, 3)
        job = dev.until(f"/jobs/{under_way['id']}", lambda body: body["ended"].get("SUCCESS", 0))
        assert job["status"] == "RUNNING"
        assert [one["host"] for one in job["excluded"]] == ["sim-0042"]
        (running_import,) = dev.items("/tasks?q=type:catalogue.import")
        shown = dev.until(f"/tasks/{running_import['id']}", lambda body: body["progress"])
        assert shown["status"] == "running"
        dev.until("/tasks?q=type:order.ship", lambda body: body["items"])
        dev.until("/tasks?q=type:email.send+status:completed", lambda body: body["items"])
        trial = dev.get("/about")["trial"]
        assert trial == {"sample": True, "hosts": 1000, "store": dev.word("store")}
        assert not psutil.Process(dev.child.pid).children()
        assert dev.stop() == 0
    assert not psutil.pid_exists(dev.child.pid)
    assert states(cli) == []


def test_the_person_who_logs_in_may_approve_and_decide(cli: Cli) -> None:
    with running(cli) as dev, httpx2.Client(base_url=dev.url) as login:
        assert login.get(dev.word("open")).status_code == 303
        login.headers["origin"] = dev.url
        (approval,) = dev.items("/approvals")
        path = f"/api/v1/jobs/{approval['job_id']}/approve"
        answer = login.post(path, json={"reason": "go", "expect_digest": approval["digest"]})
        assert answer.status_code == 200, answer.text
        assert dev.items("/approvals") == []
        (decision,) = dev.items("/decisions?q=state:open")
        path = f"/api/v1/decisions/{decision['id']}"
        answer = login.post(path, json={"choice": "close anyway"})
        assert answer.status_code == 200, answer.text
        path = f"/tasks/{decision['task_id']}"
        task = dev.until(path, lambda body: body["status"] == "completed")
        assert task["result"] == "close anyway"


def test_a_kept_store_goes_on_and_a_taken_port_is_named(cli: Cli) -> None:
    with running(cli, "--hosts", "0", "--keep") as dev:
        store = dev.word("store")
        port = dev.url.rpartition(":")[2]
        said = cli.fails(2, "dev", "--port", port)
        assert f"cannot listen on 127.0.0.1:{port}" in said
        assert "choose another --port" in said
        assert dev.stop() == 0
    (folder,) = states(cli)
    assert (folder / "holdfast.db").exists()
    with running(cli, "--hosts", "0", "--url", store) as dev:
        assert dev.word("sample") == "goes"
        assert [one["count"] for one in dev.items("/dead-letters/groups")] == [12, 3]
        assert dev.stop() == 0
    assert states(cli) == [folder]


def test_without_the_sample_nothing_runs(cli: Cli) -> None:
    with running(cli, "--empty", until="  stop ") as dev:
        assert dev.get("/about")["trial"]["sample"] is False
        assert dev.items("/tasks") == []
        assert dev.items("/hosts") == []
        assert dev.stop() == 0
    assert states(cli) == []


def test_options_that_make_no_sense_are_refused(cli: Cli) -> None:
    assert "--hosts is -1" in cli.fails(2, "dev", "--hosts", "-1")
    assert "--url is the store" in cli.fails(2, "dev", "--url", "holdfast://127.0.0.1:1")
