"""Prints the answer of a command in the chosen format.

Promises: data on stdout, notes on stderr; `json` is one document, `jsonl` one object per line, `name` one
id per line. Never: mixes notes into data, or lets data control the terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.cli.options import Common, Output
from holdfast.cli.output import colour, table
from holdfast.cli.output.table import Column, Item
from holdfast.core.text import json_text, lines, one_line

DRY_RUN: Final = ("dry run", "nothing was changed; the outcome would be:")


class Printer:
    """The printer of one command."""

    def __init__(self, common: Common, *, dry_run: bool = False) -> None:
        self.output = common.output
        self.dry_run = dry_run
        """Whether what is printed is the outcome of a dry run."""
        self.colour = colour.wanted(common.color, sys.stdout)

    @property
    def width(self) -> int | None:
        """The columns of the terminal. None: nothing is cut, as with `wide` or in a pipe."""
        if self.output is Output.WIDE or not sys.stdout.isatty():
            return None
        return shutil.get_terminal_size().columns

    @property
    def is_table(self) -> bool:
        return self.output in (Output.TABLE, Output.WIDE)

    def rows(self, items: Sequence[Item], columns: Sequence[Column], *, empty: str) -> None:
        """Prints a list."""
        if self.output is Output.JSON:
            self.document(list(items))
        elif self.output is Output.JSONL:
            for item in items:
                self.object(item)
        elif self.output is Output.NAME:
            for item in items:
                print(table.clean(columns[0].value(item)))
        elif items:
            print("\n".join(table.render(items, columns, width=self.width, colour=self.colour)))
        else:
            self.note(empty)

    def one(
        self,
        item: Item,
        fields: Sequence[tuple[str, object]],
        *,
        name: object = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Prints one object. `names`: those that it stands for, in place of one name."""
        if self.dry_run:
            item, fields = {"dry_run": True} | item | {"dry_run": True}, [DRY_RUN, *fields]
        if self.output is Output.JSON:
            self.document(item)
        elif self.output is Output.JSONL:
            self.object(item)
        elif self.output is Output.NAME:
            for each in [name] if names is None else names:
                print(table.clean(each))
        else:
            self.lines(fields)

    def lines(self, fields: Sequence[tuple[str, object]]) -> None:
        """Prints names and values, one pair per line."""
        if pairs := table.pairs(fields, width=self.width, colour=self.colour):
            print("\n".join(pairs), flush=True)

    def document(self, value: object) -> None:
        print(json_text(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))

    def object(self, value: object) -> None:
        """Prints one line of JSON at once."""
        print(json_text(msgspec.json.encode(value).decode()), flush=True)

    def content(self, data: bytes, *, to_stderr: bool = False) -> None:
        """Prints bytes that a task has written, at once. A file or a pipe gets them as they are, a terminal
        gets clean text."""
        stream = sys.stderr if to_stderr else sys.stdout
        raw = None if stream.isatty() else getattr(stream, "buffer", None)
        if raw is None:
            print(lines(data.decode(errors="replace")), end="", flush=True, file=stream)
        else:
            raw.write(data)
            raw.flush()

    def paint(self, text: str, style: str) -> str:
        return colour.paint(text, style if self.colour else "")

    def note(self, text: str) -> None:
        """Prints a note, only with table output."""
        if self.is_table:
            print(one_line(text), file=sys.stderr)


def mute() -> None:
    """Discards further output after the reader of stdout has closed it; the flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
