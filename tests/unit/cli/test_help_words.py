"""Help and reference name every word that an option takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from holdfast.cli.commands.conflict import settle
from holdfast.cli.commands.enqueue import enqueue
from holdfast.cli.commands.op import run
from holdfast.cli.commands.simulate import simulate
from holdfast.cli.commands.task_intervene import force
from holdfast.core.bulk import BulkAction
from holdfast.core.takeover_rules import FORCES
from holdfast.core.task import PRIORITY_NAMES
from holdfast.sim.scenarios import SCENARIOS
from holdfast.sim.swarm import FAULTS

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        (simulate, "scenario", SCENARIOS),
        (simulate, "faults", FAULTS),
        (run, "action", BulkAction),
        (force, "status", FORCES),
        (enqueue, "priority", PRIORITY_NAMES),
        (settle, "take", ("server", "client", "merged")),
    ],
)
def test_the_help_of_an_option_has_its_words(
    command: Callable[..., object], option: str, words: Iterable[str]
) -> None:
    assert missing(words, help_of(command, option)) == []


def test_the_reference_has_the_words_of_simulate() -> None:
    text = (
        REFERENCE.read_text("utf-8").partition("### `holdfast simulate`")[2].partition("\n## ")[0]
    )
    assert missing([*SCENARIOS, *FAULTS], text) == []


def help_of(command: Callable[..., object], option: str) -> str:
    annotation: Any = get_type_hints(command, include_extras=True)[option]
    return "".join(each.help for each in annotation.__metadata__)


def missing(words: Iterable[str], text: str) -> list[str]:
    return [word for word in words if not re.search(rf"(?<![\w-]){word}(?![\w-])", text)]
