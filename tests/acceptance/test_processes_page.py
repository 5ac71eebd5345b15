"""The programs of docs/howto/processes.md print what the page says."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "processes.md").read_text("utf-8")
BLOCK = re.compile(
    r"```python\n# (\w+\.py)\n(.*?)```\n(?:\nIt prints:\n\n```\n(.*?)```)?", re.DOTALL
)
FILES = {name: (text, said) for name, text, said in BLOCK.findall(PAGE)}
PROGRAMS = [name for name, (_, said) in FILES.items() if said]


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "myapp.py").write_text(FILES["myapp.py"][0], "utf-8")
    (folder / name).write_text(FILES[name][0], "utf-8")
    # Newer Pythons warn of every fork of a process with threads.
    options = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    return subprocess.run(
        [sys.executable, *options, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=60,
    )


def test_every_program_of_the_page_is_run() -> None:
    assert PAGE.count("```python") == len(FILES) == len(PROGRAMS) + 1
    assert len(PROGRAMS) == 6


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    ran = run(name, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == FILES[name][1]


def test_a_new_file_is_readable_for_its_owner_only(tmp_path: Path) -> None:
    assert run("web.py", tmp_path).returncode == 0
    assert stat.S_IMODE((tmp_path / "tasks.db").stat().st_mode) == 0o600
