"""The examples of the page about selectors, as it shows them."""

from __future__ import annotations

import re

import pytest

from holdfast.core.fleet.hosts.selector import fold, parse, selected
from holdfast.core.fleet.model import Host, HostState
from holdfast.errors import HoldfastError
from tests.pages import page
from tests.unit.core.fleet.fleet_support import host

PAGE = page("selectors.md")
GROUPS = {"drained": parse("state=cordoned")}


def cells(heading: str) -> list[list[str]]:
    """The rows of the tables below a heading, without the first row of each."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in row.strip("|").split(" | ")] for row in rows]


def hosts() -> list[Host]:
    made = []
    for name, text in (
        row[:2] for row in cells("Examples") if "=" in row[-1] and "`" not in row[-1]
    ):
        labels = dict(re.findall(r"(\S+)=(\S+)", text))
        state = HostState(labels.pop("state", "active"))
        made.append(host(name, labels, state=state))
    return made


EXAMPLES = [
    row for row in cells("Examples") if "=" not in row[-1] and row[0] not in ("host", "selector")
]
ERRORS = [row for row in cells("Errors") if row[0] != "selector"]


def test_the_page_has_hosts_and_examples() -> None:
    assert len(hosts()) == 5
    assert len(EXAMPLES) == 10
    assert len(ERRORS) == 5


@pytest.mark.parametrize(("text", "folded"), EXAMPLES)
def test_an_example_selects_what_the_page_says(text: str, folded: str) -> None:
    assert fold(each.name for each in selected(parse(text), hosts(), GROUPS)) == folded


@pytest.mark.parametrize(("text", "code", "message"), ERRORS)
def test_an_error_is_the_one_of_the_page(text: str, code: str, message: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        selected(parse(text), hosts(), GROUPS)
    assert (caught.value.code, str(caught.value)) == (code, message)
