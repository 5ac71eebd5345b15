"""The sources of the Control Center: its rules are those of the core, the commands that it shows exist, and
its policy can hold."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.cli.tree import BY_PATH
from holdfast.gateway.rest.pages import SCREENS
from scripts.page_rules import written

WEB = Path(__file__).resolve().parents[2] / "web"
SOURCES = sorted((WEB / "src").rglob("*.ts*"))
SHOWN = re.compile(r"(?:`|>|\"|')holdfast ([a-z]+)(?: ([a-z-]+))?")


def test_the_rules_of_pages_are_those_of_the_core() -> None:
    for path, text in written().items():
        assert path.read_text("utf-8") == text, "run python scripts/page_rules.py"


def test_the_commands_that_pages_show_exist() -> None:
    missing = []
    for path in SOURCES:
        for noun, verb in SHOWN.findall(path.read_text(encoding="utf-8")):
            if noun not in BY_PATH and f"{noun} {verb}".strip() not in BY_PATH and verb:
                missing.append(f"{path.name}: holdfast {noun} {verb}")
    assert missing == []


def test_every_screen_of_the_page_has_a_path_at_the_gateway() -> None:
    table = (WEB / "src" / "app.tsx").read_text(encoding="utf-8")
    names = set(re.findall(r'^  "?([a-z-]*)"?: \{(?: title|$)', table, re.MULTILINE))
    assert names - set(SCREENS) == set()
    assert {"tasks", "inbox", "settings", ""} <= names


def test_no_source_writes_markup_or_evaluates_text() -> None:
    banned = re.compile(
        r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function\("
    )
    assert [path.name for path in SOURCES if banned.search(path.read_text(encoding="utf-8"))] == []


def test_the_lock_names_no_host() -> None:
    assert "://" not in (WEB / "package-lock.json").read_text(encoding="utf-8")
