"""Commands whose gateway goes away: each ends within its bounds, says so on stderr, and advises."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.cli import session
from holdfast.client import patience
from holdfast.remote import admin, waiters
from tests.acceptance.cli_support import Done, run_inside

Answers = Callable[[str, str], Any]
"""The body that a gateway answers with. None: it does not answer."""
HEAD = "e1:7"
OPERATION = {
    "id": "op_1",
    "state": "running",
    "action": "pause",
    "q": "type:a",
    "done": 0,
    "failed": 0,
    "total": 4,
    "errors": [],
    "actor": "ann",
    "reason": "",
    "detail": "",
}
TASK = {"id": "t-1", "type": "add", "status": "queued", "queue": "default", "project": "default"}
MADE = {"task": TASK, "created": True, "pressure": "accepted"}


@pytest.fixture(autouse=True)
def short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(session, "GONE_SECONDS", 2.0)
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(admin, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(waiters, "POLL_SECONDS", 0.1)


@contextmanager
def gateway(answers: Answers) -> Iterator[str]:
    """The address of a gateway that answers as the function says."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path.removeprefix("/api/v1/")
            if (body := answers(self.command, path)) is None:
                is_over.wait(30)
                return
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.send_header("holdfast-position", HEAD)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"holdfast://127.0.0.1:{server.server_port}"
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def said(folder: Path, answers: Answers, *args: str) -> Done:
    with gateway(answers) as url:
        return run_inside(folder, *args, "--gateway", url, "--token", "hf_user_x")


def known(**bodies: Any) -> Answers:
    """Answers these paths, with `_` for a slash, and no other."""
    return lambda _method, path: {"whoami": {"roles": []}, **bodies}.get(path.replace("/", "_"))


def test_a_gateway_that_does_not_answer_ends_a_command_after_two_tries(tmp_path: Path) -> None:
    done = said(tmp_path, lambda _method, _path: None, "task", "list")
    assert done.code == 10
    retry, error = done.said.splitlines()
    assert "does not answer in time; trying again" in retry
    assert error.startswith("error[gateway-unavailable]: no gateway answers at")
    assert "accepts connections and does not answer" in error


def test_a_wait_for_a_task_ends_and_names_the_task(tmp_path: Path) -> None:
    asked: list[str] = []

    def answers(method: str, path: str) -> Any:
        asked.append(f"{method} {path}")
        if method == "POST":
            return MADE
        return {"whoami": {"roles": []}, "tasks": {"items": [TASK], "next": None}}.get(path)

    done = said(tmp_path, answers, "enqueue", "add", "--wait")
    assert done.code == 10, done
    assert done.said.startswith("task t-1\n")
    assert "trying again for " in done.said
    assert done.said.splitlines()[-1] == "task t-1 goes on: holdfast task show t-1"
    assert asked.count("GET events") > 2


def test_a_tail_that_ends_names_the_position_to_go_on_from(tmp_path: Path) -> None:
    event = {
        "position": HEAD,
        "kind": "task.created",
        "task_id": "t-1",
        "type": "add",
        "at": "2026-01-01T00:00:00.000Z",
        "data": {},
    }
    pages = iter(
        [
            {"items": [], "next": "e1:0", "head": HEAD},
            {"items": [], "next": "e1:0", "head": HEAD},
            {"items": [event], "next": HEAD, "head": HEAD},
        ]
    )

    def answers(_method: str, path: str) -> Any:
        return {"roles": []} if path == "whoami" else next(pages, None)

    done = said(tmp_path, answers, "events", "tail", "--follow")
    assert done.code == 10, done
    assert "t-1" in done.out
    assert "trying again for " in done.said
    assert done.said.splitlines()[-1] == f"to go on from here: --after {HEAD}"


def test_a_tail_goes_on_after_the_gateway_is_back(tmp_path: Path) -> None:
    page = {"items": [], "next": HEAD, "head": HEAD}
    event = {
        "position": "e1:8",
        "kind": "task.created",
        "task_id": "t-2",
        "type": "add",
        "at": "2026-01-01T00:00:00.000Z",
        "data": {},
    }
    pages = iter([page, page, None, None, {"items": [event], "next": "e1:8", "head": "e1:8"}])

    def answers(_method: str, path: str) -> Any:
        return {"roles": []} if path == "whoami" else next(pages)

    done = said(tmp_path, answers, "events", "tail", "--follow", "--limit", "1", "--after", HEAD)
    assert done.code == 0, done
    assert "t-2" in done.out
    assert "trying again" in done.said


@pytest.mark.parametrize("command", ["op run pause -q type:a", "op resume op_1"])
def test_an_operation_is_named_at_its_start_and_when_its_gateway_is_gone(
    tmp_path: Path, command: str
) -> None:
    def answers(method: str, path: str) -> Any:
        if method == "POST":
            return OPERATION
        return {"whoami": {"roles": []}, "operations": {"items": []}}.get(path)

    done = said(tmp_path, answers, *command.split())
    assert done.code == 10, done
    assert done.said.startswith("operation op_1\n")
    assert done.said.splitlines()[-1] == "the operation op_1 goes on: holdfast op show op_1"


@pytest.mark.parametrize(
    ("figures", "code"),
    [
        ({"state": "done", "done": 4}, 0),
        ({"state": "done", "done": 3, "failed": 1}, 3),
        ({"state": "stopped", "done": 2, "detail": "too many refusals"}, 3),
        ({"state": "stopped", "failed": 1, "detail": "canary"}, 1),
        ({"state": "done", "failed": 4}, 1),
        ({"state": "done", "total": 0}, 1),
    ],
)
@pytest.mark.parametrize("command", ["op run pause -q type:a", "op resume op_1"])
def test_the_exit_code_of_an_operation_says_how_much_was_changed(
    tmp_path: Path, command: str, figures: dict[str, Any], code: int
) -> None:
    body = OPERATION | figures
    answers = known(operations=body, operations_op_1=body, operations_op_1_resume=body)
    done = said(tmp_path, answers, *command.split())
    assert done.code == code, done
    assert done.said == "operation op_1\n"


def test_an_unknown_action_and_a_missing_node_are_refused_in_words_of_the_command(
    tmp_path: Path,
) -> None:
    unknown = said(tmp_path, known(), "op", "run", "abrt", "-q", "type:a")
    assert unknown.code == 2
    assert "'abrt' is not an action: give replay, discard, abort, pause, resume" in unknown.said
    missing = said(tmp_path, known(), "op", "run", "reassign", "-q", "type:a")
    assert missing.code == 2
    assert "reassign needs --to NODE" in missing.said
