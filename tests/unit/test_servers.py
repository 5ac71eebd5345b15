"""The servers that the other tests use: they start, crash, hang and recover as promised."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis import Redis as RedisClient
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError, TimeoutError as RedisTimeout
from redis.retry import Retry

from proof.lab import servers
from proof.lab.folders import PREFIX, scratch, server_user
from proof.lab.servers import (
    Postgres,
    Redis,
    ServerFailed,
    reachable,
    redis_binary,
    valkey_binary,
    wait_for_all,
)


def client(server: Redis, answer_seconds: float = 60.0) -> RedisClient:
    retry = Retry(NoBackoff(), 0)  # the default retries for seconds against a dead node
    return RedisClient.from_url(
        server.url, retry=retry, socket_timeout=answer_seconds, decode_responses=True, protocol=2
    )


async def test_each_test_has_its_own_database(pg_server: Postgres, pg_dsn: str) -> None:
    connection = await asyncpg.connect(pg_dsn)
    name = await connection.fetchval("select current_database()")
    await connection.execute("create table mine (id int)")
    await connection.close()
    assert name != "postgres"
    assert pg_dsn == pg_server.dsn(name)


async def test_postgres_keeps_what_it_committed_through_a_crash() -> None:
    with Postgres(fsync="on", synchronous_commit="on", full_page_writes="on") as server:
        dsn = server.dsn()
        connection = await asyncpg.connect(dsn)
        await connection.execute("create table kept (id int)")
        await connection.execute("insert into kept values (7)")
        server.kill()
        with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
            await connection.fetch("select 1")
        assert not server.is_running

        server.start()
        again = await asyncpg.connect(dsn)
        assert await again.fetchval("select id from kept") == 7
        await again.close()


async def test_a_paused_postgres_hangs_and_then_answers() -> None:
    with Postgres() as server:
        connection = await asyncpg.connect(server.dsn())
        server.pause()
        with pytest.raises(TimeoutError):
            await connection.fetchval("select 1", timeout=0.05)
        server.resume()
        connection.terminate()
        again = await asyncpg.connect(server.dsn())
        assert await again.fetchval("select 1") == 1
        await again.close()


def test_redis_starts_and_is_empty(redis_url: str) -> None:
    with RedisClient.from_url(redis_url, protocol=2) as connection:
        assert connection.dbsize() == 0


def test_a_redis_with_a_log_keeps_its_data_through_a_crash() -> None:
    with Redis("--appendonly", "yes", "--appendfsync", "always") as server:
        with client(server) as connection:
            connection.set("key", "value")
        server.kill()
        server.start()
        with client(server) as connection:
            assert connection.get("key") == "value"


def test_redlock_nodes_fail_one_by_one(redlock_nodes: list[Redis]) -> None:
    dead, hung, *alive = redlock_nodes
    dead.kill()
    hung.pause()
    with client(dead) as connection, pytest.raises(RedisConnectionError):
        connection.ping()
    with client(hung, 0.2) as connection, pytest.raises(RedisTimeout):
        connection.ping()
    for node in alive:
        with client(node) as connection:
            assert connection.set("lock", "me", nx=True)


def test_redlock_nodes_are_whole_and_empty_again(redlock_nodes: list[Redis]) -> None:
    assert len({node.port for node in redlock_nodes}) == 5
    for node in redlock_nodes:
        with client(node) as connection:
            assert connection.dbsize() == 0


def test_valkey_is_the_second_redis() -> None:
    with Redis(binary=valkey_binary()) as server:
        assert "valkey" in server.command("INFO server")
        server.restart()
        assert server.command("PING") == "+PONG\r\n"


def test_servers_run_as_a_user_that_postgres_accepts(
    pg_server: Postgres, redis_server: Redis
) -> None:
    for server in (pg_server, redis_server):
        assert psutil.Process(server.pid).uids().real == server_user()[0] != 0


def test_a_server_that_cannot_start_reports_why() -> None:
    with pytest.raises(ServerFailed, match="no-such-option"):
        Redis("--no-such-option", "1")


def test_binaries_below_a_closed_folder_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone below root's home: the servers' user cannot enter it."""
    monkeypatch.setattr(servers, "is_open", lambda _: os.geteuid() != 0)
    reachable.cache_clear()
    try:
        for binary in (redis_binary(), valkey_binary()):
            with Redis(binary=binary) as server:
                assert server.command("PING") == "+PONG\r\n"
            assert not server.root.exists()
    finally:
        reachable.cache_clear()


def test_the_suite_needs_no_home_and_takes_a_path_with_a_space(tmp_path: Path) -> None:
    """Everything but the packages is in a folder with a space, and the home is not writable."""
    root = tmp_path / "a clone"
    here = Path(__file__).parent.parent.parent
    for name in ("src", "tests", "proof"):
        shutil.copytree(here / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(here / "pyproject.toml", root)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("tests/unit/test_servers.py", "tests/unit/core/test_rules.py"),
            *("-k", "test_each_test_has or test_redis_starts or test_rules"),
        ],
        cwd=root,
        env=os.environ | {"HOME": "/proc", "PYTHONPATH": f"{root / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_nothing_is_left_when_the_test_process_is_killed() -> None:
    code = "from proof.lab.servers import Redis; print(Redis().pid, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        server = psutil.Process(int(process.stdout.readline()))
        process.kill()
    wait_for_all([server])

    scratch.cache_clear()
    assert not list(scratch().glob(f"{PREFIX}{process.pid}-*"))
