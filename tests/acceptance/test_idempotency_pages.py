"""The examples of the pages on idempotency and retry run, each page as one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(("page", "said"), [("idempotency", "charging order-1"), ("retry", "")])
def test_the_examples_of_the_page_run(page: str, said: str, tmp_path: Path) -> None:
    blocks = EXAMPLE.findall((HOWTO / f"{page}.md").read_text("utf-8"))
    program = "\n\n".join(blocks)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(blocks) >= 2
    assert said in ran.stdout
    assert ran.stdout.count("charging") == (page == "idempotency")
