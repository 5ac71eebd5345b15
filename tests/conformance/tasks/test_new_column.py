"""A new column of a task, added to a store that has tasks: a field, a line and a migration suffice.

The test makes a copy of the package, adds the column to it and runs `new_column_app.py` with the copy.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.clock import SystemClock
from holdfast.store.backends import store_for
from holdfast.store.sql import load_migrations
from tests.backends import SHARED, url_of
from tests.conformance.tasks.helpers import claim, put, put_plain

APP = Path(__file__).parent / "new_column_app.py"
FIELD = "    assigned_until: float | None = None\n"
LINE = '    (Column("assigned_until", _TIME), _CHANGED),\n'
MIGRATION = "ALTER TABLE holdfast_task ADD COLUMN region text;\n"


def insert_after(file: Path, line: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(line) == 1, f"{file.name} has another form: adapt this test"
    file.write_text(text.replace(line, line + new), "utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package that has the new column."""
    folder = tmp_path / "next"
    package = folder / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package)
    insert_after(package / "core/task.py", FIELD, "    region: str | None = None\n")
    column = '    (Column("region", "text"), _SHAPE),\n'
    insert_after(package / "store/columns.py", LINE, column)
    for dialect in ("sqlite", "postgres"):
        number = load_migrations(f"holdfast.store.{dialect}")[-1].number + 1
        file = package / f"store/{dialect}/migrations/{number:04}_region.sql"
        file.write_text(MIGRATION, "utf-8")
    return folder


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


def run_app(url: str, copy: Path) -> Any:
    ran = subprocess.run(
        [sys.executable, str(APP), url],
        env=os.environ | {"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


async def test_a_store_with_tasks_gets_a_new_column(url: str, copy: Path) -> None:
    store = store_for(url, SystemClock())()
    await store.open()
    await put(store, "old-running")
    assert [task.id for task in await claim(store)] == ["old-running"]
    await put(store, "old-general")
    old = ["old-running", "old-general", *await put_plain(store, 2)]
    await store.close()

    new = {"new-direct": "eu", "new-general": "eu", "new-one": "us", "new-1": "eu", "new-2": "us"}
    assert await asyncio.to_thread(run_app, url, copy) == {
        "package": str(copy / "holdfast"),
        "regions": dict.fromkeys(old) | new,
        "completed": sorted([*old, *new]),
    }
