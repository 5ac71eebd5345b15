"""The page about locks: its examples run, and every row of its tables links an existing test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "locks.md"
TEXT = PAGE.read_text("utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[`(\w+)`\]\(([^)]+\.py)\)")


def test_the_examples_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n\n".join(EXAMPLE.findall(TEXT))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "upgrading host:42 under fence 1"
    assert lines[1].startswith("refused: fence 2 of 'host:42'")
    assert lines[2] == "fence 4"


def test_every_row_of_the_promise_tables_links_an_existing_test() -> None:
    rows = [line for line in TEXT[TEXT.index("## What is promised") :].splitlines() if "|" in line]
    rows = [
        line
        for line in rows
        if line.startswith("| ") and not line.startswith(("| promise", "| not"))
    ]
    assert len(rows) > 25
    for row in rows:
        links = LINK.findall(row)
        assert links, row
        for name, target in links:
            tree = ast.parse((PAGE.parent / target).read_text("utf-8"))
            kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            assert name in {node.name for node in tree.body if isinstance(node, kinds)}, name
