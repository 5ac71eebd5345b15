"""The examples run, and those with tests of their own pass them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

EXAMPLES = ROOT / "examples"
SAY = {
    "outbox.py": "2 tasks for two users",
    "quickstart.py": "sent 'Hello' to a@example.com",
    "shop.py": "ship-5       completed  order 5 shipped",
}


def run(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=folder, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAY)
    assert {path.parent.name for path in EXAMPLES.glob("*/pytest.ini")} == {"crawl"}


@pytest.mark.parametrize("name", SAY)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    assert SAY[name] in run(tmp_path, str(EXAMPLES / name))


def test_the_tests_of_the_application_pass(tmp_path: Path) -> None:
    """In a copy: nothing of this repository is in its path."""
    folder = tmp_path / "crawl"
    shutil.copytree(EXAMPLES / "crawl", folder, ignore=shutil.ignore_patterns("__pycache__"))
    assert "8 passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
