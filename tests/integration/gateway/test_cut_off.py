"""A stop with clients that wait and clients that never end their request: no traceback in the log."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest
import websockets

from tests.integration.gateway.processes import Process, started

STREAM = "/api/v1/stream?channel=system:events"
POLL = "/api/v1/poll?channel=system:events&wait_seconds=30"


async def half_a_request(server: Process) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that sends the beginning of a body and then nothing. Returns when the server reads it."""
    host, _, port = server.url.partition("//")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        "POST /api/v1/tasks HTTP/1.1",
        f"Host: {host}:{port}",
        f"Authorization: {server.auth['Authorization']}",
        "Content-Type: application/json",
        "Content-Length: 100",
        "Expect: 100-continue",
    )
    writer.write("\r\n".join([*head, "", "{"]).encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 100"), "the server waits for the body"
    await reader.readline()
    return reader, writer


async def stop_beside_clients(server: Process, signals: tuple[signal.Signals, ...]) -> bytes:
    """Stops the server while clients of each kind are connected. Returns the answer to half a request."""
    socket_url = server.url.replace("http", "ws") + "/api/v1/ws"
    async with (
        httpx2.AsyncClient(base_url=server.url, headers=server.auth, timeout=30.0) as client,
        websockets.connect(
            socket_url,
            subprotocols=[websockets.Subprotocol("holdfast.v1")],
            additional_headers=server.auth,
        ) as socket,
        client.stream("GET", STREAM) as stream,
    ):
        await socket.recv()
        lines = stream.aiter_lines()
        await anext(lines)
        poll = asyncio.create_task(client.get(POLL))
        reader, writer = await half_a_request(server)
        for number in signals:
            server.child.send_signal(number)
        answer = await reader.read()
        writer.close()
        await asyncio.gather(poll, return_exceptions=True)
        return answer


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)])
def test_a_stop_that_cuts_off_a_request_logs_no_traceback(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    with started(tmp_path, "--no-loops") as server:
        answer = asyncio.run(stop_beside_clients(server, signals))
        assert server.child.wait(30) == 0
    log = (tmp_path / "stderr").read_text()
    assert "Traceback" not in log, log
    assert "the stop cut off a request" in log
    if len(signals) == 1:
        assert answer.startswith(b"HTTP/1.1 503"), answer
        assert b'"queue-stopping"' in answer
