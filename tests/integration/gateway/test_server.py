"""The server as a process: start, requests, live connections, stop."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
import websockets

from holdfast.errors import BadConfig, MissingExtra
from holdfast.gateway.server import check_extra
from holdfast.gateway.settings import ServerSettings, admin_token, server_settings
from tests.integration.gateway.processes import TLS, Process, started

ADMIN = "hf_admin_" + "b" * 40
CERT = str(TLS / "cert.pem")
NO_GRPC = ("--grpc-port", "-1")


def test_a_server_starts_serves_and_stops(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from holdfast import TaskQueue\n"
        "queue = TaskQueue('sqlite:///holdfast.db')\n"
        "@queue.task\n"
        "async def double(n: int) -> int:\n"
        "    return 2 * n\n"
    )
    with started(tmp_path, "--workers", "app:queue") as server:
        assert server.ask("GET", "/readyz").json()["status"] == "ok"
        made = server.ask("POST", "/api/v1/tasks", json={"type": "double", "payload": {"n": 4}})
        assert made.status_code == 201, made.text
        task_id = made.json()["task"]["id"]
        done = server.ask("GET", f"/api/v1/tasks/{task_id}", params={"wait_seconds": 20})
        assert (done.json()["status"], done.json()["result"]) == ("completed", 8)
        assert server.stop() == 0
    log = (tmp_path / "stderr").read_text()
    assert "Traceback" not in log, log
    assert server.auth["Authorization"][7:] not in log


def test_a_feed_is_served_over_a_ticket_and_as_a_stream(tmp_path: Path) -> None:
    with started(tmp_path, "--no-loops", HOLDFAST_ADMIN_TOKEN=ADMIN) as server:
        asyncio.run(watch(server))
        assert server.stop() == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


async def watch(server: Process) -> None:
    async with httpx2.AsyncClient(base_url=server.url, headers=server.auth) as client:
        ticket = (await client.post("/api/v1/ws-tickets")).json()["ticket"]
        url = server.url.replace("http", "ws") + f"/api/v1/ws?ticket={ticket}"
        async with websockets.connect(
            url, subprotocols=[websockets.Subprotocol("holdfast.v1")]
        ) as socket:
            assert json.loads(await socket.recv())["type"] == "hello"
            await socket.send(json.dumps({"type": "subscribe", "channel": "system:events"}))
            async with client.stream("GET", "/api/v1/stream?channel=system:events") as stream:
                await client.post("/api/v1/tokens", json={"name": "x", "roles": ["viewer"]})
                while "token.created" not in str(await socket.recv()):
                    pass
                async for line in stream.aiter_lines():
                    if "token.created" in line:
                        break
        async with websockets.connect(
            url, subprotocols=[websockets.Subprotocol("holdfast.v1")]
        ) as socket:
            assert await close_code(socket) == 4401, "a ticket counts once"
        denied = await client.get("/api/v1/stream", headers={"Origin": "https://elsewhere.example"})
        assert denied.status_code == 403
        assert (
            await client.get("/api/v1/stream", headers={"Authorization": ""})
        ).status_code == 401


async def close_code(socket: websockets.ClientConnection) -> int | None:
    """Reads until the server has closed."""
    with suppress(websockets.ConnectionClosed):
        while True:
            await socket.recv()
    await socket.wait_closed()
    return socket.close_code


def test_a_websocket_at_an_unknown_path_is_not_found(tmp_path: Path) -> None:
    async def connect(server: Process) -> tuple[int, str]:
        url = server.url.replace("http", "ws") + "/api/v1/wss"
        with pytest.raises(websockets.InvalidStatus) as raised:
            await websockets.connect(url, additional_headers=server.auth)
        response = raised.value.response
        return response.status_code, json.loads(response.body or b"{}").get("code", "")

    with started(tmp_path, "--no-loops") as server:
        assert asyncio.run(connect(server)) == (404, "not-found")


def test_a_stop_ends_live_connections(tmp_path: Path) -> None:
    async def hang(server: Process) -> int | None:
        url = server.url.replace("http", "ws") + "/api/v1/ws"
        async with websockets.connect(
            url,
            subprotocols=[websockets.Subprotocol("holdfast.v1")],
            additional_headers=server.auth,
        ) as socket:
            await socket.recv()
            server.child.send_signal(signal.SIGTERM)
            return await close_code(socket)

    with started(tmp_path, "--no-loops") as server:
        assert asyncio.run(hang(server)) == 1001
        assert server.child.wait(20) == 0


def test_a_server_speaks_tls(tmp_path: Path) -> None:
    options = ["--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(TLS / "key.pem")]
    with started(
        tmp_path, "--no-loops", "--host", "0.0.0.0", *options, HOLDFAST_ADMIN_TOKEN=ADMIN
    ) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert server.url.startswith("https://")
        assert server.ask("GET", "/api/v1/whoami").json()["name"] == "user:admin"


@pytest.mark.parametrize(
    ("options", "environ", "text"),
    [
        (["--host", "0.0.0.0"], {}, "without a token and a TLS certificate"),
        (["--host", "0.0.0.0"], {"HOLDFAST_ADMIN_TOKEN": ADMIN}, "without a TLS certificate"),
        ([], {"HOLDFAST_ADMIN_TOKEN": "short"}, "HOLDFAST_ADMIN_TOKEN has 5 characters"),
        ([], {"HOLDFAST_SERVER__COLOUR": "red"}, "no setting 'colour'"),
        (["--host", "0.0.0.0"], {}, "set HOLDFAST_ADMIN_TOKEN, give --tls-cert and --tls-key"),
        (["--tls-cert", "x"], {}, "belong together"),
        ([*NO_GRPC, "--tls-cert", "x.pem", "--tls-key", "y.pem"], {}, "cannot read x.pem"),
        (["--tls-cert", CERT, "--tls-key", "y.pem"], {}, "cannot read y.pem: No such file"),
        ([*NO_GRPC, "--tls-cert", CERT, "--tls-key", CERT], {}, f"cannot use {CERT}, {CERT}"),
        (["--port", "99999"], {}, "port"),
    ],
)
def test_a_bad_configuration_is_refused(
    tmp_path: Path, options: list[str], environ: dict[str, str], text: str
) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")} | environ
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "server", *options],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with started(tmp_path, "--no-loops") as server:
        port = server.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "server", "--no-loops", "--port", port],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 2
        assert "cannot listen" in done.stderr


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdfast\[gateway\]'"):
        check_extra()


def test_settings_come_from_file_environment_and_flags(tmp_path: Path) -> None:
    table = {"server": {"port": 1, "burst": 5, "origins": ["https://a"]}}
    environ = {"HOLDFAST_SERVER__PORT": "2", "HOLDFAST_SERVER__ORIGINS": "https://b,https://c"}
    made = server_settings(table, environ, {"port": 3, "host": None})
    assert (made.port, made.burst, made.origins) == (3, 5, ("https://b", "https://c"))
    assert server_settings(table, environ, {}).port == 2
    for wrong in ({"burst": "x"}, {"body_bytes": 1}, {"base_path": "x/"}, {"rate_per_second": 0}):
        with pytest.raises(BadConfig):
            server_settings({"server": wrong}, {}, {})
    with pytest.raises(BadConfig):
        ServerSettings(client_ca="x")
    (tmp_path / "token").write_text(ADMIN + "\n")
    assert admin_token({"HOLDFAST_ADMIN_TOKEN_FILE": str(tmp_path / "token")}) == ADMIN
    with pytest.raises(BadConfig):
        admin_token({"HOLDFAST_ADMIN_TOKEN_FILE": str(tmp_path / "none")})
    assert admin_token({}) is None
