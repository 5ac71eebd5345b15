"""The program of docs/howto/django.md prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "django.md").read_text("utf-8")


def test_the_program_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    files = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
    assert sorted(files) == ["program.py", "settings.py", "tasks.py"]
    assert PAGE.count("```python") == len(files)
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    ran = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    promised = re.search(r"It prints:\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert promised
    assert ran.stdout == promised[1]
