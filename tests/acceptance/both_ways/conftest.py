"""One world for all tests of this folder."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.acceptance.both_ways.cases import SIDES
from tests.acceptance.both_ways.world import ADMIN, HOLDER, KEEP_LIVE, World, fill, fill_node
from tests.integration.gateway.processes import Process, started


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path, str]]:
    folder = tmp_path_factory.mktemp("gateway")
    url = f"sqlite:///{folder}/holdfast.db"
    with started(folder, "--url", url, "--no-loops", HOLDFAST_ADMIN_TOKEN=ADMIN) as process:
        yield process, folder, url


@pytest.fixture(scope="package")
def world(server: tuple[Process, Path, str]) -> World:
    process, folder, url = server
    names = asyncio.run(fill(url))
    asyncio.run(fill_node(folder / "folder-of-node"))
    for side in SIDES:
        text = f"imported-{side}-[1-3] role=imported\nwrong line\n"
        (folder / f"hosts-{side}.txt").write_text(text)
    with contextlib.closing(apsw.Connection(f"{folder}/holdfast.db")) as connection:
        connection.execute(KEEP_LIVE)
    subprocess.run([sys.executable, "-c", HOLDER, url], check=True)
    return World(folder, url, process.url.replace("http://", "holdfast://"), names)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_URL", "HOLDFAST_GATEWAY", "HOLDFAST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
