"""The tables of docs/explanation/proof.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/proof.md").read_text("utf-8")


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its header row."""
    below = PAGE.partition(f"\n## {heading}\n")[2]
    match = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert match is not None
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in match[0].splitlines()[2:]]
