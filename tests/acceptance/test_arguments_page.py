"""The program of docs/reference/arguments.md prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/arguments.md"


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [said] = re.findall(r"It prints:\n\n```\n(.*?)```", text, re.DOTALL)
    (tmp_path / "app.py").write_text(program, "utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "app.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == said
