"""The pictures of the documentation are in use and small: `python -m tests.browser.pictures` makes them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.pictures import FOLDER, IDS, pictures
from tests.launcher import ROOT

BYTES_MAX = 600_000
"""Of all pictures together."""


def test_every_picture_is_shown_and_all_are_small() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    shown = {Path(target).name for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)}
    made = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert made.keys() == {f"{one.name}.webp" for one in pictures(dict.fromkeys(IDS, ""))}
    assert made.keys() <= shown
    assert sum(made.values()) < BYTES_MAX
