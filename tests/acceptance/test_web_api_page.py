"""The programs of docs/howto/web_api.md print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "web_api.md").read_text("utf-8")
BLOCK = re.compile(
    r"```python\n# (\w+\.py)\n(.*?)```\n(?:\nIt prints:\n\n```\n(.*?)```)?", re.DOTALL
)
FILES = {name: (text, said) for name, text, said in BLOCK.findall(PAGE)}
PROGRAMS = [name for name, (_, said) in FILES.items() if said]


def test_every_program_of_the_page_is_run() -> None:
    assert PAGE.count("```python") == len(FILES) == len(PROGRAMS) + 1 == 3


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    for file in ("reports.py", name):
        (tmp_path / file).write_text(FILES[file][0], "utf-8")
    ran = subprocess.run(
        [sys.executable, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == FILES[name][1]
