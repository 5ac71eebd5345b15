"""The programs of docs/howto/watching.md print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "watching.md").read_text("utf-8")
BLOCK = re.compile(r"```python\n# (\w+\.py)\n(.*?)```\n\nIt prints:\n\n```\n(.*?)```", re.DOTALL)
PROGRAMS = {name: (text, said) for name, text, said in BLOCK.findall(PAGE)}


def test_every_program_of_the_page_is_run() -> None:
    assert PAGE.count("```python") == len(PROGRAMS) == 3


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    text, said = PROGRAMS[name]
    (tmp_path / name).write_text(text, "utf-8")
    ran = subprocess.run(
        [sys.executable, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == said
