"""Files of several folders given to pytest together find the fixtures of their folders, in any order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "files",
    [
        (
            "conformance/locks/test_grants.py",
            "conformance/tasks/test_time.py",
            "conformance/locks/test_holding.py",
        ),
        ("integration/test_forks.py", "test_tidy.py", "integration/test_locks_processes.py"),
    ],
)
def test_fixtures_are_found_in_any_order(files: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--setup-plan", "-p", "no:cacheprovider"]
        + [f"tests/{name}" for name in files],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=100,
    )
    assert "fixture '" not in ran.stdout
    assert ran.returncode == 0, ran.stdout[-2000:]
