"""What a list of hosts became: entries, groups, and the lines that could not be read.

Promises: entries are valid and have different names. Problems are bounded: the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

import msgspec

from holdfast.core.fleet.hosts.entry import HostEntry, check_entry
from holdfast.core.fleet.hosts.names import fold
from holdfast.core.fleet.hosts.selector_parse import GROUP_NAME, SELECTOR_CHARS_MAX
from holdfast.core.text import one_line
from holdfast.errors import InvalidInput

TEXT_CHARS_MAX: Final = 16_777_216
"""Characters of a list of hosts."""
PROBLEMS_MAX: Final = 1_000
"""Problems that are named."""
MESSAGE_CHARS_MAX: Final = 300


class LineProblem(msgspec.Struct, frozen=True):
    """A line that could not be read, or not whole."""

    line: int
    """From 1. 0: the whole text."""
    message: str


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts of a list."""

    entries: tuple[HostEntry, ...] = ()
    groups: dict[str, str] = {}
    """Selectors of the groups that the list defines, by name."""
    problems: tuple[LineProblem, ...] = ()
    more_problems: int = 0
    """Problems beyond those that are named."""


class Lister:
    """Collects the hosts of a list."""

    ENTRIES_MAX: ClassVar[int] = 50_000

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_CHARS_MAX:
            raise InvalidInput(f"the list has {len(text)} characters: at most {TEXT_CHARS_MAX}")
        self._entries: dict[str, HostEntry] = {}
        self._lines: dict[str, int] = {}
        self._groups: dict[str, str] = {}
        self._problems: list[LineProblem] = []
        self._count = 0
        self._is_full = False

    def add(self, line: int, entry: HostEntry) -> None:
        """A host, if it is valid and new."""
        if entry.name in self._lines:
            self.problem(line, f"host '{entry.name}' is on line {self._lines[entry.name]} already")
            return
        if len(self._entries) >= self.ENTRIES_MAX:
            if not self._is_full:
                self.problem(
                    line, f"the list has more than {self.ENTRIES_MAX} hosts: the rest is left out"
                )
            self._is_full = True
            return
        try:
            check_entry(entry)
        except InvalidInput as error:
            self.problem(line, str(error))
            return
        self._entries[entry.name] = entry
        self._lines[entry.name] = line

    def add_group(self, line: int, name: str, hosts: Iterable[str]) -> None:
        """A group of those of the hosts that were added."""
        selector = fold(host for host in hosts if host in self._entries)
        if GROUP_NAME.fullmatch(name) is None:
            self.problem(line, f"'{name}' is no name of a group: use letters, digits, _ . : and -")
        elif len(selector) > SELECTOR_CHARS_MAX:
            self.problem(line, f"group '{name}' is too long for a selector: use a label instead")
        elif selector:
            self._groups[name] = selector

    def problem(self, line: int, message: str) -> None:
        self._count += 1
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(LineProblem(line, one_line(message)[:MESSAGE_CHARS_MAX]))

    def done(self) -> Inventory:
        return Inventory(
            entries=tuple(self._entries.values()),
            groups=self._groups,
            problems=tuple(sorted(self._problems, key=lambda each: each.line)),
            more_problems=self._count - len(self._problems),
        )
