"""The tutorial: each file is saved and each command is run, in order, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import DOCS
from tests.walk import walking

SHOWN = "postgresql://postgres:shop@localhost/postgres"


@pytest.mark.timeout(300)
def test_the_tutorial_runs_step_by_step(tmp_path: Path, pg_dsn: str) -> None:
    text = (DOCS / "tutorial.md").read_text("utf-8")
    with walking(tmp_path, {SHOWN: pg_dsn}) as walk:
        walk.take(text)
    assert len(walk.commands) > 30
