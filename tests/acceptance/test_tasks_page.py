"""The program of docs/howto/tasks.md prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "tasks.md").read_text("utf-8")


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    said = re.findall(r"It prints:\n\n```\n(.*?)```", PAGE, re.DOTALL)[0]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == said
