"""What a gateway adds to a command: who may, how it is reached, what stays at the store."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import pytest

from holdfast import TaskQueue, __version__
from holdfast.client import Client
from holdfast.errors import BadConfig
from tests.acceptance.both_ways.cases import GATEWAY, LOCAL, SIDES, STORE
from tests.acceptance.both_ways.world import ADMIN, World
from tests.acceptance.cli_support import run_inside
from tests.integration.gateway.processes import TLS, started


@pytest.mark.parametrize("path", sorted(LOCAL))
def test_a_command_without_a_gateway_says_so(world: World, path: str) -> None:
    done = world.run(GATEWAY, *path.split())
    assert (done.code, done.out) == (2, "")
    assert f"holdfast {path} does not go through a gateway: " in done.said


def test_a_database_command_is_not_led_astray_by_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GATEWAY", world.gateway)
    for args in (["migrate"], ["new-epoch", "--yes"]):
        done = run_inside(world.folder, "db", *args)
        assert done.code == 2
        assert "HOLDFAST_GATEWAY names a gateway: give --url" in done.said
    assert run_inside(world.folder, "db", "migrate", "--url", world.url).code == 0


def test_the_environment_names_the_gateway_and_a_flag_counts_more(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_GATEWAY", world.gateway)
    monkeypatch.setenv("HOLDFAST_TOKEN", ADMIN)
    assert "default" in run_inside(tmp_path, "queue", "list").out
    other = f"sqlite:///{tmp_path}/other.db"
    assert run_inside(tmp_path, "queue", "list", "--url", other).code == 10
    for args in (["--gateway", ""], ["--gateway", world.gateway, "--url", other]):
        assert run_inside(tmp_path, "queue", "list", *args).code == 2
    assert run_inside(tmp_path, "queue", "list", "--gateway", other).code == 2


def test_a_token_without_a_gateway_is_refused(world: World) -> None:
    done = run_inside(world.folder, "queue", "list", "--url", world.url, "--token", ADMIN)
    assert done.code == 2
    assert "--token is for a gateway" in done.said


def test_the_pages_open_with_a_link_for_the_token(world: World) -> None:
    viewer = world.names["secret of viewer"]
    link = json.loads(world.run(GATEWAY, "ui", "--no-browser", "-o", "json", token=viewer).out)
    with httpx2.Client() as client:
        answer = client.get(link["url"])
        assert (answer.status_code, viewer in answer.headers["set-cookie"]) == (303, True)
    without = world.run(STORE, "ui")
    assert (without.code, "a store has no pages" in without.said) == (2, True)


def test_tokens_that_do_not_open(world: World) -> None:
    wrong = world.run(GATEWAY, "queue", "list", token="hf_user_" + "x" * 43)
    assert (wrong.code, wrong.out) == (4, "")
    assert "error[unauthenticated]" in wrong.said
    assert "hf_user_" not in wrong.said
    missing = run_inside(world.folder, "queue", "list", "--gateway", world.gateway)
    assert missing.code == 2
    assert "HOLDFAST_TOKEN" in missing.said
    expired = made_token(world, "--role", "viewer", "--expires", "1ms")
    done = world.run(GATEWAY, "queue", "list", token=expired)
    assert (done.code, "error[unauthenticated]" in done.said) == (4, True)
    revoked = made_token(world, "--role", "viewer")
    assert world.run(GATEWAY, "queue", "list", token=revoked).code == 0


def made_token(world: World, *options: str) -> str:
    done = world.run(STORE, "token", "create", "made", *options, "-o", "name")
    assert done.code == 0, done
    return done.out.strip()


def test_a_missing_right_changes_nothing(world: World) -> None:
    viewer = world.names["secret of viewer"]
    assert world.run(GATEWAY, "task", "show", "later", token=viewer).code == 0
    for args in (
        "task cancel later",
        "queue pause default",
        "dlq discard dead-2",
        "dlq replay --all --yes",
        "token list",
        "audit list",
        "project create stolen",
        "enqueue add a=1",
        "lock revoke lock-x",
    ):
        done = world.run(GATEWAY, *args.split(), token=viewer)
        assert (done.code, done.out) == (4, ""), args
        assert "error[forbidden]: user:viewer may not do" in done.said, args
    assert json.loads(world.run(STORE, "task", "show", "later", "-o", "json").out)["version"] == 1


def test_a_gateway_that_does_not_answer(world: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"holdfast://127.0.0.1:{taken.getsockname()[1]}"
        done = run_inside(world.folder, "stats", "--gateway", away, "--token", ADMIN)
        checked = run_inside(world.folder, "doctor", "--gateway", away, "--token", ADMIN)
    assert done.code == 10
    assert "error[gateway-unavailable]: no gateway answers at" in done.said
    assert checked.code == 1
    assert "fail: gateway: [gateway-unavailable]" in checked.said


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    tls = ("--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(TLS / "key.pem"))
    url = f"sqlite:///{tmp_path}/holdfast.db"
    with started(tmp_path, "--url", url, "--no-loops", *tls, HOLDFAST_ADMIN_TOKEN=ADMIN) as process:
        command = ("queue", "list", "--token", ADMIN, "--gateway")
        done = run_inside(tmp_path, *command, process.url)
        trusted = run_inside(tmp_path, *command, f"{process.url}?ca={TLS / 'cert.pem'}")
        for scheme in ("holdfasts", "grpcs"):
            asyncio.run(_finds_the_certificate(process.url.replace("https", scheme)))
    assert done.code == 2
    assert f"the certificate of gateway {process.url} is not trusted" in done.said
    assert "?ca=FILE" in done.said
    assert trusted.code == 0, trusted


async def _finds_the_certificate(url: str) -> None:
    """A worker, and a watch, do not wait for a gateway that they will never trust."""
    queue = TaskQueue(url, token=ADMIN)
    queue.register_handler("mail", print)
    with pytest.raises(BadConfig, match=r"the certificate of gateway .* is not trusted"):
        await queue.start()
    await queue.stop()
    async with Client(url, token=ADMIN) as client, client.watch("project:default") as items:
        with pytest.raises(BadConfig, match=r"the certificate of gateway .* is not trusted"):
            await anext(aiter(items))


@pytest.mark.parametrize("answers", ["nothing", "a page"])
def test_doctor_names_a_server_that_is_no_gateway(tmp_path: Path, answers: str) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if answers == "nothing" else 200)
            self.end_headers()
            self.wfile.write(b"<html>welcome</html>")

        def log_message(self, *_: object) -> None:
            """Keeps quiet."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run_inside(tmp_path, "doctor", "--gateway", url, "--token", ADMIN)
        server.shutdown()
        thread.join()
    assert done.code == 1
    assert "is not a gateway of Holdfast" in done.said


def test_doctor_checks_the_way_to_the_gateway(world: World) -> None:
    done = world.run(GATEWAY, "doctor", "-o", "json")
    checks = {item["name"]: item for item in json.loads(done.out)}
    of_store = json.loads(world.run(STORE, "doctor", "-o", "json").out)
    assert list(checks) == ["gateway", "version", "token", "clock skew"] + [
        item["name"] for item in of_store
    ]
    assert "(from --gateway): reachable" in checks["gateway"]["text"]
    assert checks["version"]["text"] == f"{__version__}, as this command"
    assert "of user:admin: admin; projects: all" in checks["token"]["text"]
    assert checks["clock skew"]["level"] == "ok"
    token = made_token(world, "--role", "viewer", "--project", "web")
    narrow = json.loads(world.run(GATEWAY, "doctor", "-o", "json", token=token).out)
    assert narrow[-1]["name"] == "store"
    assert "the token may not see the checks of the store" in narrow[-1]["text"]


def test_a_change_through_a_gateway_is_an_intervention_of_its_principal(world: World) -> None:
    assert world.run(GATEWAY, "enqueue", "add", "--id", "watched", "--delay", "1h").code == 0
    token = made_token(world, "--role", "operator")
    assert world.run(GATEWAY, "task", "pause", "watched", "--reason", "look", token=token).code == 0
    history = json.loads(world.run(STORE, "task", "history", "watched", "-o", "json").out)
    made = [event for event in history if event["kind"].startswith("intervention.")]
    assert made
    assert {event["data"]["actor"] for event in made if "actor" in event["data"]} == {"user:made"}
    acts = json.loads(world.run(STORE, "audit", "list", "--limit", "1", "-o", "json").out)
    fields = ("operation", "subject", "actor", "reason")
    assert [tuple(act[name] for name in fields) for act in acts] == [
        ("tasks.intervene", "watched", "user:made", "look")
    ]


def test_the_figures_of_a_token_are_those_of_its_projects(world: World) -> None:
    token = made_token(world, "--role", "viewer", "--project", "web")
    figures = json.loads(world.run(GATEWAY, "stats", "-o", "json", token=token).out)
    assert figures["dead_letter_count"] == 0
    waiting = sum(figures[name] for name in ("queued", "blocked", "paused"))
    assert waiting == sum(sum(counts.values()) for counts in figures["by_queue"].values()) == 2


@pytest.mark.parametrize("side", SIDES)
def test_a_prefix_of_a_decision_or_a_conflict_is_enough(world: World, side: str) -> None:
    for noun in ("decision", "conflict"):
        whole = world.names[f"{noun}-s"]
        item = json.loads(world.run(side, noun, "show", whole[:30], "-o", "json").out)
        assert item["id"] == whole
        others = world.run(side, noun, "show", whole[:6])
        assert others.code == 2
        assert "start with" in others.said
