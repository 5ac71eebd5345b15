"""`holdfast init`: what it writes is run as it is."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.commands import init
from holdfast.cli.commands.init import TEMPLATES
from tests.acceptance.cli_support import Cli, Worker, run_inside
from tests.pages import DOCS

OWN = {"user", "workingdirectory", "environmentfile", "execstart", "memorymax", "tasksmax"}
"""Keys of the unit that differ from those of the page."""


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser


def test_the_first_files_run(tmp_path: Path) -> None:
    done = run_inside(tmp_path, "init", "shop")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == [
        f"shop/{name}" for name in TEMPLATES
    ]
    assert done.said.startswith("next  cd shop\n      holdfast worker app:queue\n")
    folder = tmp_path / "shop"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr
    assert not (folder / "holdfast.db").exists()
    cli = Cli(folder)
    with Worker(cli, ["worker", "app:queue"]) as worker:
        assert worker.ready(1)
        assert "hello you" in cli.ok("enqueue", "greet", "name=you", "--wait")


def test_the_unit_is_that_of_the_page(tmp_path: Path) -> None:
    assert run_inside(tmp_path, "init", "50% off").code == 0
    made = unit((tmp_path / "50% off" / "holdfast-worker.service").read_text("utf-8"))
    page = (DOCS / "howto" / "deploying.md").read_text("utf-8")
    [shown] = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    for section in unit(shown).sections():
        wanted = {key: value for key, value in unit(shown)[section].items() if key not in OWN}
        assert {key: made[section][key] for key in wanted} == wanted
    service = made["Service"]
    assert service["WorkingDirectory"] == str(tmp_path / "50%% off")
    assert re.fullmatch(r"\S+/holdfast worker app:queue --log-format json", service["ExecStart"])
    assert service["User"]


def test_a_file_that_exists_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text("mine")
    refused = run_inside(tmp_path, "init")
    assert refused.code == 6
    assert "test_app.py in" in refused.said
    assert [path.name for path in tmp_path.iterdir()] == ["test_app.py"]
    assert (tmp_path / "test_app.py").read_text() == "mine"


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    foreseen = run_inside(tmp_path, "init", "shop", "--dry-run")
    assert (foreseen.code, foreseen.said) == (0, "dry run: nothing was written\n")
    assert len(foreseen.out.splitlines()) == len(TEMPLATES)
    assert list(tmp_path.iterdir()) == []


def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "_text", lambda name, _: "\ud800" if name.endswith("service") else "")
    assert run_inside(tmp_path, "init").code != 0
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    refused = run_inside(tmp_path, "init", "file")
    assert refused.code == 2
    assert "cannot be written" in refused.said


@pytest.mark.parametrize("name", ["my shop", "-shop", "it's", "$HOME"])
def test_the_next_step_can_be_pasted(tmp_path: Path, name: str) -> None:
    step = run_inside(tmp_path, "init", "--", name).said.splitlines()[0].removeprefix("next  ")
    went = subprocess.run(
        ["sh", "-c", f"{step} && ls"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert went.stdout.split() == sorted(TEMPLATES)


def test_a_folder_that_would_add_a_line_to_the_unit_is_refused(tmp_path: Path) -> None:
    refused = run_inside(tmp_path, "init", "shop\nExecStartPre=true")
    assert (refused.code, "choose a folder without line breaks" in refused.said) == (2, True)
    assert run_inside(tmp_path, "init", "-").code == 2
    assert list(tmp_path.iterdir()) == []
