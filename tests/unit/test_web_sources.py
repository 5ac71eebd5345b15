"""The sources of the Control Center: its rules are those of the core, the commands that it shows exist, and
its policy can hold."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.cli.tree import BY_PATH
from holdfast.core.event_kinds import KINDS
from holdfast.core.rights import Operation
from holdfast.core.task import EXECUTION_TYPE
from holdfast.gateway.rest.pages import SCREENS
from scripts.page_rules import written

WEB = Path(__file__).resolve().parents[2] / "web"
SOURCES = sorted((WEB / "src").rglob("*.ts*"))
STYLES = sorted((WEB / "src").rglob("*.css"))
OF_UPLOT = "u-"
"""The classes of the chart library, which the style sheets change."""
EXPORT = re.compile(
    r"^export (?:async )?(?:const|function|interface|type|class) (\w+)", re.MULTILINE
)
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


def test_the_kinds_of_events_and_the_rights_that_pages_name_exist() -> None:
    named = {
        name
        for path in SOURCES
        for name in re.findall(r'"([a-z]+\.[a-z_]+)"', path.read_text("utf-8"))
    }
    assert len(named) > 60
    assert sorted(named - {*KINDS, *Operation, EXECUTION_TYPE, "value.json"}) == []


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


def test_every_style_is_used() -> None:
    """Classes are words of the sources, some by their start: `host-${look}`."""
    code = "\n".join(path.read_text("utf-8") for path in SOURCES)
    styles = "\n".join(path.read_text("utf-8") for path in STYLES)
    words = set(re.findall(r"[A-Za-z][\w-]*", code))
    starts = (OF_UPLOT, "i1", *re.findall(r"([a-z]+-)\$\{", code))
    selectors = " ".join(
        re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", styles, flags=re.DOTALL))
    )
    classes = set(re.findall(r"\.([A-Za-z][\w-]*)", selectors))
    assert [name for name in sorted(classes - words) if not name.startswith(starts)] == []
    named = set(re.findall(r"^\s*--([\w-]+):|[;{]\s*--([\w-]+):", styles, re.MULTILINE))
    tokens = {name for pair in named for name in pair if name}
    used = set(re.findall(r"var\(--([\w-]+)", styles + code)) | words
    assert sorted(tokens - used) == []


def test_what_a_file_exports_another_imports() -> None:
    texts = {path: path.read_text("utf-8") for path in SOURCES if path.name != "rules.ts"}
    unused = [
        f"{path.name}: {name}"
        for path, text in texts.items()
        for name in EXPORT.findall(text)
        if not any(re.search(rf"\b{name}\b", other) for at, other in texts.items() if at != path)
    ]
    assert unused == []


def test_the_lock_names_no_host() -> None:
    assert "://" not in (WEB / "package-lock.json").read_text(encoding="utf-8")
