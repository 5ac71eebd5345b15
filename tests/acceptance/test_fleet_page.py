"""The program of docs/howto/fleet.md prints what the page says, on simulated hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.gateway.processes import started

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "fleet.md").read_text("utf-8")
ADMIN = "hf_admin_" + "a" * 40


@pytest.mark.timeout(180)
def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    said = re.findall(r"It prints:\n\n```\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "first_jobs.py").write_text(program)
    with started(tmp_path, "--simulated-hosts", "20", HOLDFAST_ADMIN_TOKEN=ADMIN) as server:
        environ = {**os.environ, "HOLDFAST_GATEWAY": server.url, "HOLDFAST_TOKEN": ADMIN}
        ran = subprocess.run(
            [sys.executable, "first_jobs.py"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environ,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout == said
        assert server.stop() == 0
