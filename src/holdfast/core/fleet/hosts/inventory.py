"""Lists of hosts to import: JSON lines, plain text and inventories of Ansible.

    jsonl           one object for each line, as `POST /hosts` takes it
    text            web-[001-050] role=web address=10.0.0.1     # `address`, `driver` and `state` are fields
    ansible         an inventory in the INI form
    ansible-json    what `ansible-inventory --list` prints, for inventories of every other form

Promises: every line becomes hosts or a problem with its number; one bad line does not spoil the others. Of a
host that is listed twice the first line counts, and the second is a problem. All hosts are valid entries.
Never: reads files or evaluates templates. YAML is not read: Ansible itself turns it into `ansible-json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.check import check_choice, shown
from holdfast.core.fleet.hosts import ansible
from holdfast.core.fleet.hosts.entry import HostEntry, check_entry
from holdfast.core.fleet.hosts.listing import Inventory, Lister
from holdfast.core.fleet.hosts.names import read_name
from holdfast.core.fleet.words import split_words
from holdfast.core.search.scan import Scanner
from holdfast.errors import InvalidInput

_FIELDS: Final = ("address", "driver", "state")
_YAML: Final = ("yaml", "yml", "ansible-yaml")
OBJECT: Final = 'write e.g. {"name": "web-01", "labels": {"rack": "7"}}'
_json: Final = msgspec.json.Decoder(HostEntry)


class InventoryFormat(StrEnum):
    """How a list of hosts is written."""

    JSONL = "jsonl"
    TEXT = "text"
    ANSIBLE = "ansible"
    ANSIBLE_JSON = "ansible-json"


def read_inventory(text: str, format: str) -> Inventory:
    """The hosts of the text. InvalidInput for an unknown format, and for a text that is too long."""
    if format in _YAML:
        raise InvalidInput(
            "an inventory in YAML is not read: run ansible-inventory -i FILE --list and import its output "
            "with the format ansible-json"
        )
    lister = Lister(text)
    _READERS[check_choice("format", format, InventoryFormat)](text, lister)
    return lister.done()


def _read_jsonl(text: str, lister: Lister) -> None:
    for number, line in _lines(text):
        try:
            entry = _json.decode(line)
        except msgspec.ValidationError as error:
            lister.problem(number, f"{error}; {OBJECT}")
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            lister.problem(number, f"{error}")
        else:
            lister.add(number, entry)


def _read_text(text: str, lister: Lister) -> None:
    for number, line in _lines(text):
        if line.startswith("#"):
            continue
        try:
            entries = list(_text_entries(line))
        except InvalidInput as error:
            lister.problem(number, str(error))
            continue
        for entry in entries:
            lister.add(number, entry)


def _text_entries(line: str) -> Iterator[HostEntry]:
    """The hosts of a line. All get the same labels."""
    scanner = Scanner(line)
    folded = read_name(scanner)
    if scanner.char and not scanner.char.isspace():
        raise InvalidInput(f"a blank is missing behind the name, at column {scanner.at + 1}")
    fields: dict[str, str] = {}
    labels: dict[str, str] = {}
    for word in split_words("labels", _without_comment(line[scanner.at :])):
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput(f"{shown(word)} is no label: write key=value")
        (fields if key in _FIELDS else labels)[key] = value
    check_entry(HostEntry(name="x", labels=labels, **fields))
    if folded.size > Lister.ENTRIES_MAX:
        raise InvalidInput(f"the line names {folded.size} hosts: at most {Lister.ENTRIES_MAX}")
    for name in folded.names():
        yield HostEntry(name=name, labels=labels, **fields)


def _without_comment(text: str) -> str:
    """The text before a `#` that stands behind a blank and outside quotes."""
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and text[at - 1 : at].isspace():
            return text[:at]
    return text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        if stripped := line.strip():
            yield number, stripped


_READERS: Final[dict[InventoryFormat, Callable[[str, Lister], None]]] = {
    InventoryFormat.JSONL: _read_jsonl,
    InventoryFormat.TEXT: _read_text,
    InventoryFormat.ANSIBLE: ansible.read_ini,
    InventoryFormat.ANSIBLE_JSON: ansible.read_list,
}
