"""A host as an operator or an agent describes it, and what is valid for its fields.

Promises: what passes the checks can be stored and selected. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.check import check_choice, check_name, check_text, shown
from holdfast.core.fleet.hosts.selector_parse import FACT, FIELDS, LABEL_KEY
from holdfast.core.fleet.model import HOST_PREFIX, HostDriver, HostState
from holdfast.core.wire import check_new_id
from holdfast.errors import InvalidInput

LABELS_MAX: Final = 100
LABEL_CHARS_MAX: Final = 200
FACTS_BYTES_MAX: Final = 65_536
ADDRESS_CHARS_MAX: Final = 500


class HostEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host as an operator describes it. None leaves a field as it is; a new host has the default."""

    name: str
    driver: str | None = None
    address: str | None = None
    labels: dict[str, str] | None = None
    """All of them: labels that are not in it are removed."""
    state: str | None = None


def check_entry(entry: HostEntry) -> None:
    """InvalidInput unless the entry can become a host."""
    check_host_name(entry.name)
    check_fields(entry)


def check_host_name(name: str) -> str:
    """A name that is neither an id of a host nor starts with a character of selectors."""
    check_new_id("name", name)
    if name.startswith(HOST_PREFIX):
        raise InvalidInput(f"name {shown(name)} looks like an id of a host: use another name")
    return name


def check_label_key(key: str) -> str:
    """A key that selectors can name."""
    check_name("labels", key, most=LABEL_CHARS_MAX)
    if LABEL_KEY.fullmatch(key) is None:
        raise InvalidInput(
            f"labels has the key {shown(key)}: start with a letter, and use letters, digits, '.', '_', '-' "
            "and '/'"
        )
    if key in FIELDS or key.startswith(FACT):
        raise InvalidInput(f"labels has the key {shown(key)}, which selectors use: use another key")
    return key


def check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise InvalidInput(f"labels has {len(labels)} items: at most {LABELS_MAX} are allowed")
    for key, value in labels.items():
        check_label_key(key)
        check_text("labels", value, most=LABEL_CHARS_MAX)


def check_facts(facts: Mapping[str, object]) -> str:
    """The facts of a host as JSON. InvalidInput if they are too large or no JSON."""
    try:
        text = codec.dumps(facts)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"facts is no JSON object: {error}") from None
    if len(text.encode()) > FACTS_BYTES_MAX or codec.is_deeper(text, codec.DEPTH_MAX):
        raise InvalidInput(
            f"facts has more than {FACTS_BYTES_MAX} bytes of JSON, or is nested deeper than "
            f"{codec.DEPTH_MAX}: leave some out"
        )
    return text


def check_fields(entry: HostEntry) -> None:
    """All fields but the name."""
    if entry.driver is not None:
        check_choice("driver", entry.driver, HostDriver)
    if entry.address is not None:
        check_text("address", entry.address, most=ADDRESS_CHARS_MAX)
    if entry.labels is not None:
        check_labels(entry.labels)
    if entry.state is not None:
        state = check_choice("state", entry.state, HostState)
        if state is HostState.GONE:
            raise InvalidInput("state is 'gone': remove the host instead")
