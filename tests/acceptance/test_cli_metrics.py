"""`holdfast metrics` and `holdfast worker --metrics-port`, scraped as Prometheus scrapes them."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import TaskQueue
from holdfast.cli.scrapes import HEAD_BYTES_MAX, metered, serving
from holdfast.engine.meters import FAMILIES
from holdfast.errors import BadConfig
from holdfast.metrics import Metrics, NullMeter
from tests.acceptance.cli_support import APP, HOLDFAST, Cli, Worker
from tests.backends import SHARED, url_of
from tests.integration.gateway.processes import started


@pytest.fixture(params=SHARED)
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Cli:
    return Cli(tmp_path, url_of(request.param, request, tmp_path))


@pytest.fixture
def local(tmp_path: Path) -> Cli:
    return Cli(tmp_path, f"sqlite:///{tmp_path / 'holdfast.db'}")


def get(port: int, path: str = "/metrics", method: str = "GET") -> HTTPResponse:
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        return answer


def scraped(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples as the client library of Prometheus reads them."""
    answer = get(port)
    assert answer.status == 200
    assert answer.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    text: str = answer.text  # type: ignore[attr-defined]
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labelled(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@contextmanager
def exporter(cli: Cli, *args: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A `holdfast metrics` that serves."""
    command = [*HOLDFAST, "metrics", "--port", "0", *args]
    process = subprocess.Popen(
        command,
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line)
        assert found, line
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


async def three_tasks(url: str) -> None:
    async with TaskQueue(url).producer() as queue:
        queue.register_handler("work", lambda payload: payload)
        await queue.enqueue_many({"type": "work"} for _ in range(3))


def test_an_exporter_shows_what_the_store_has(cli: Cli) -> None:
    asyncio.run(three_tasks(cli.env["HOLDFAST_URL"]))
    with exporter(cli) as (process, port):
        samples = scraped(port)
        assert samples[labelled("holdfast_queue_depth", queue="default", status="queued")] == 3
        assert samples[labelled("holdfast_tasks_by_type", type="work", status="queued")] == 3
        assert samples[labelled("holdfast_queue_oldest_seconds", queue="default")] >= 0
        assert samples[labelled("holdfast_feed_head")] >= 3
        assert any(name == "holdfast_build_info" for name, _ in samples)
        assert get(port, "/healthz").status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_an_exporter_makes_no_store(local: Cli) -> None:
    assert "there is no SQLite file" in local.fails(10, "metrics", "--port", "0")
    assert "in memory" in local.fails(2, "metrics", "--port", "0", "--url", "sqlite://")


def port_of(worker: Worker) -> int:
    found = re.search(r":(\d+)/metrics", worker.until("metrics on"))
    assert found
    return int(found[1])


async def add(url: str) -> None:
    async with TaskQueue(url).producer() as queue:
        handle = await queue.enqueue("add", {"a": 1, "b": 2})
        assert await handle.result(60) == 3


def test_a_worker_shows_its_own_runs(cli: Cli) -> None:
    with cli.worker("--metrics-port", "0") as worker:
        port = port_of(worker)
        asyncio.run(add(cli.env["HOLDFAST_URL"]))
        samples = scraped(port)
        run = {"type": "add", "queue": "default"}
        assert samples[labelled("holdfast_tasks_total", outcome="completed", **run)] == 1
        assert samples[labelled("holdfast_task_run_seconds_count", **run)] == 1
        assert samples[labelled("holdfast_claim_batch_size_count")] == 1
        assert samples[labelled("holdfast_outcome_batch_size_sum")] == 1
        assert samples[labelled("holdfast_workers")] >= 1
        assert samples[labelled("holdfast_leases_lost_total")] == 0
        assert samples[labelled("holdfast_bus_hints_total", topic="work")] >= 1
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0


def two_free_ports() -> int:
    """The first of two neighbours that are free now."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def test_each_process_of_a_worker_has_a_port(local: Cli) -> None:
    first = two_free_ports()
    with local.worker("--processes", "2", "--metrics-port", str(first)) as worker:
        assert {port_of(worker), port_of(worker)} == {first, first + 1}
        for port in (first, first + 1):
            assert labelled("holdfast_workers") in scraped(port)
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0


def test_a_port_that_is_taken_ends_the_worker(local: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (local.folder / "shop.py").write_text(
            "import os\nfrom holdfast import TaskQueue\nqueue = TaskQueue(os.environ['HOLDFAST_URL'])\n"
            "@queue.task\nasync def work() -> None: ...\n"
        )
        said = local.fails(2, "worker", "shop:queue", "--metrics-port", str(port))
    assert f"port {port} of 127.0.0.1 cannot serve metrics" in said
    assert "give 0 to" in local.fails(2, "worker", "shop:queue", "--metrics-port", "70000")


async def test_a_worker_behind_a_gateway_shows_its_own_runs(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        token = server.auth["Authorization"].removeprefix("Bearer ")
        queue = TaskQueue(server.url.replace("http", "holdfast", 1), token=token)

        @queue.task
        async def work() -> int:
            return 1

        metrics = metered(queue)
        async with queue, serving(queue, metrics, "127.0.0.1", 0) as port:
            assert await (await work.enqueue()).result(30) == 1
            samples = await asyncio.to_thread(scraped, port)
        labels = {"type": "work", "queue": "default", "outcome": "completed"}
        assert samples[labelled("holdfast_tasks_total", **labels)] == 1
        assert samples[labelled("holdfast_workers")] >= 1


def test_a_server_shows_the_runs_of_its_workers(local: Cli) -> None:
    (local.folder / "shop.py").write_text(APP)
    url = local.env["HOLDFAST_URL"]
    options = ("--workers", "shop:queue", "--grpc-port", "-1")
    with started(local.folder, *options, HOLDFAST_URL=url) as server:
        asyncio.run(add(url))
        text = server.ask("GET", "/metrics").text
    assert 'holdfast_tasks_total{type="add",queue="default",outcome="completed"} 1' in text


async def asked(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_only_scrapes_are_answered() -> None:
    queue = TaskQueue("sqlite://")
    metrics = metered(queue)
    async with queue.producer(), serving(queue, metrics, "127.0.0.1", 0) as port:
        for request, status in (
            (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", b"200 OK"),
            (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
            (b"nonsense\r\n\r\n", b"400 Bad Request"),
        ):
            assert (await asked(port, request)).startswith(b"HTTP/1.1 " + status)
        head = await asked(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert await asked(port, b"x" * (2 * HEAD_BYTES_MAX)) == b""


async def test_a_scrape_without_the_store_shows_no_old_values() -> None:
    queue = TaskQueue("sqlite://")
    metrics = metered(queue)
    await queue.open()
    async with serving(queue, metrics, "127.0.0.1", 0) as port:
        assert (await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await queue.stop()
        answer = await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable")
        assert b"holdfast_" not in answer


def test_a_meter_that_keeps_nothing_cannot_be_shown() -> None:
    with pytest.raises(BadConfig, match="reports to a NullMeter"):
        metered(TaskQueue("sqlite://", meter=NullMeter()))
    own = Metrics(FAMILIES)
    assert metered(TaskQueue("sqlite://", meter=own)) is own
