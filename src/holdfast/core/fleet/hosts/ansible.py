"""Inventories of Ansible: the INI form, and the JSON that `ansible-inventory --list` prints.

Variables become labels, `ansible_host`, `ansible_user` and `ansible_port` the address `user@host:port`, and
groups become groups with the names of their hosts. Other variables `ansible_…` are left out.
Promises: variables count as in Ansible: those of a host before those of its groups, those of a child before
those of its parents, groups of one depth by name. Never: evaluates templates, which are left out with a
problem.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.fleet.hosts.entry import HostEntry, check_labels
from holdfast.core.fleet.hosts.listing import Lister
from holdfast.core.fleet.hosts.names import NAMES_MAX
from holdfast.errors import InvalidInput

ALL: Final = "all"
IMPLICIT: Final = (ALL, "ungrouped")
OWN: Final = "ansible_"
GROUPS_MAX: Final = 1_000
LINE_CHARS_MAX: Final = 8_192
"""Of a line of the INI form."""
MEMBERS_MAX: Final = 1_000_000
"""Hosts of all groups together. A host counts in each group that it is in."""
_SECTION: Final = re.compile(r"\[([^\]:]+)(?::([a-z]+))?\]\s*(?:#.*)?")
_RANGE: Final = re.compile(
    r"\[(?:([0-9]{1,9}):([0-9]{1,9})|([A-Za-z]):([A-Za-z]))(?::([0-9]{1,9}))?\]"
)
_PORT: Final = re.compile(r"([^:]+):([0-9]{1,5})")
_DRIVERS: Final = {"ssh": "ssh", "smart": "ssh", "paramiko": "ssh", "paramiko_ssh": "ssh"}


class _TooManyGroups(InvalidInput):
    """Nothing of the inventory is read."""


class _Tree:
    """Groups and variables of an inventory, with the lines that define them."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, str]] = {}
        self.lines: dict[str, int] = {}
        self.members: dict[str, dict[str, None]] = {ALL: {}}
        self.children: dict[str, dict[str, int]] = {ALL: {}}
        self.vars: dict[str, dict[str, str]] = {}
        self.group_lines: dict[str, int] = {}

    def group(self, name: str, line: int) -> None:
        if name not in self.members and len(self.members) >= GROUPS_MAX:
            raise _TooManyGroups(
                f"the inventory has more than {GROUPS_MAX} groups: nothing is read; split it"
            )
        self.members.setdefault(name, {})
        self.children.setdefault(name, {})
        self.group_lines.setdefault(name, line)

    def host(self, name: str, line: int) -> dict[str, str]:
        """The variables of the host."""
        self.lines.setdefault(name, line)
        return self.hosts.setdefault(name, {})


def read_ini(text: str, lister: Lister) -> None:
    """Adds the hosts and groups of an inventory in the INI form."""
    tree, section, kind = _Tree(), "ungrouped", "hosts"
    tree.group(section, 0)
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if len(line) > LINE_CHARS_MAX:
            # Words are split character by character, in a time that grows with the square of a long one.
            lister.problem(
                number, f"the line has more than {LINE_CHARS_MAX} characters: it is left out"
            )
            continue
        match = _SECTION.fullmatch(line)
        try:
            if match is not None:
                section, kind = match[1].strip(), match[2] or "hosts"
                _open(tree, section, kind, number)
            elif kind == "hosts":
                _read_hosts(tree, section, line, number)
            elif kind == "children":
                tree.children[section].setdefault(_bare(line), number)
            elif kind == "vars":
                _read_var(tree, section, line)
            else:
                lister.problem(number, f"the line is left out: its section is [{section}:{kind}]")
        except _TooManyGroups as error:
            lister.problem(number, str(error))
            return
        except (InvalidInput, ValueError) as error:
            lister.problem(number, str(error))
    _list(tree, lister)


def read_list(text: str, lister: Lister) -> None:
    """Adds the hosts and groups of the JSON document that `ansible-inventory --list` prints."""
    try:
        document = msgspec.json.decode(text, type=dict[str, dict[str, codec.Json]])
        tree = _tree_of(document)
    except (msgspec.DecodeError, UnicodeEncodeError, InvalidInput) as error:
        lister.problem(0, f"the text is not the output of ansible-inventory --list: {error}")
        return
    _list(tree, lister)


def _tree_of(document: Mapping[str, Mapping[str, codec.Json]]) -> _Tree:
    tree = _Tree()
    hostvars = msgspec.convert(
        document.get("_meta", {}).get("hostvars", {}), dict[str, dict[str, codec.Json]]
    )
    for name, group in document.items():
        if name == "_meta":
            continue
        tree.group(name, 0)
        hosts = msgspec.convert(group.get("hosts", []), list[str])
        tree.members[name] |= dict.fromkeys(hosts)
        children = msgspec.convert(group.get("children", []), list[str])
        tree.children[name] |= dict.fromkeys(children, 0)
        for child in children:
            tree.group(child, 0)
    for name in (*hostvars, *(host for hosts in tree.members.values() for host in hosts)):
        values = hostvars.get(name, {}).items()
        tree.host(name, 0).update({key: text for key, value in values for text in _scalar(value)})
    return tree


def _scalar(value: codec.Json) -> Iterator[str]:
    """The value as text. Lists and objects are no labels."""
    match value:
        case bool():
            yield "true" if value else "false"
        case str() | int() | float():
            yield str(value)
        case _:
            return


def _open(tree: _Tree, section: str, kind: str, line: int) -> None:
    if kind not in ("hosts", "children", "vars"):
        tree.group(section, line)
        raise InvalidInput(f"section [{section}:{kind}] is not known: use children or vars")
    tree.group(section, line)


def _read_hosts(tree: _Tree, section: str, line: str, number: int) -> None:
    pattern, *words = shlex.split(line, comments=True)
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput(f"'{word}' is no variable: write key=value")
        found[key] = value
    if (match := _PORT.fullmatch(_RANGE.sub("", pattern))) is not None:
        pattern = pattern.rpartition(":")[0]
        found.setdefault("ansible_port", match[2])
    for name in _expanded(pattern):
        tree.host(name, number).update(found)
        tree.members[section][name] = None


def _expanded(pattern: str) -> list[str]:
    """The names of a pattern with ranges `[01:50]`, `[a:f]` or `[1:9:2]`."""
    names, end = [""], 0
    for match in _RANGE.finditer(pattern):
        items = _items(match)
        if len(names) * len(items) > NAMES_MAX:
            raise InvalidInput(f"'{pattern}' stands for more than {NAMES_MAX} hosts")
        before = pattern[end : match.start()]
        names = [f"{name}{before}{item}" for name in names for item in items]
        end = match.end()
    return [f"{name}{pattern[end:]}" for name in names]


def _items(match: re.Match[str]) -> list[str]:
    first, last, letter, last_letter, step = match.groups()
    steps = int(step or 1)
    if not steps:
        raise InvalidInput(f"the range {match[0]} has a step of 0")
    if letter:
        codes = range(ord(letter), ord(last_letter) + 1, steps)
        if not codes or letter.isupper() != last_letter.isupper():
            raise InvalidInput(f"the range {match[0]} has no letters")
        return [chr(code) for code in codes]
    if first[0] == "0" and len(first) > 1 and len(first) != len(last):
        raise InvalidInput(f"the range {match[0]} has bounds of different lengths")
    numbers = range(int(first), int(last) + 1, steps)
    if not 0 < len(numbers) <= NAMES_MAX:
        raise InvalidInput(f"the range {match[0]} must have 1 to {NAMES_MAX} numbers")
    width = len(first) if first[0] == "0" else 1
    return [f"{number:0{width}d}" for number in numbers]


def _read_var(tree: _Tree, section: str, line: str) -> None:
    key, equals, value = (part.strip() for part in line.partition("="))
    if not equals:
        raise InvalidInput(f"'{line}' is no variable: write key=value")
    if len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]:
        value = value[1:-1]
    tree.vars.setdefault(section, {})[key] = value


def _bare(line: str) -> str:
    return line.partition(" #")[0].strip()


def _list(tree: _Tree, lister: Lister) -> None:
    """Adds what the tree has."""
    for children in tree.children.values():
        for child, line in list(children.items()):
            if child not in tree.members:
                lister.problem(line, f"group '{child}' is not defined")
                del children[child]
    order = _ordered(tree, lister)
    below = _hosts_below(tree, order)
    if below is None:
        lister.problem(0, f"the groups have more than {MEMBERS_MAX} hosts in all: nothing is read")
        return
    groups_of: dict[str, list[str]] = {name: [] for name in tree.hosts}
    for group in (ALL, *(each for each in order if each != ALL)):
        for host in below[group]:
            groups_of[host].append(group)
    _add_hosts(tree, groups_of, lister)
    for group in order:
        if group not in IMPLICIT:
            lister.add_group(tree.group_lines[group], group, below[group])


def _hosts_below(tree: _Tree, order: list[str]) -> dict[str, dict[str, None]] | None:
    """The hosts of each group and of the groups in it. None: there are too many."""
    below: dict[str, dict[str, None]] = {}
    total = 0
    for group in reversed(order):
        inner = [below[child] for child in tree.children[group]]
        total += len(tree.members[group]) + sum(map(len, inner))
        if total > MEMBERS_MAX:
            return None
        below[group] = dict(tree.members[group])
        for hosts in inner:
            below[group] |= hosts
    return below | {ALL: dict.fromkeys(tree.hosts)}


def _add_hosts(tree: _Tree, groups_of: Mapping[str, list[str]], lister: Lister) -> None:
    """Adds each host with its variables and those of its groups.

    A variable that is no label is one problem, whatever the number of its hosts."""
    left_out: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name, own in tree.hosts.items():
        found: dict[str, str] = {}
        for group in groups_of[name]:
            found |= tree.vars.get(group, {})
        found |= own
        lister.add(tree.lines[name], _entry(name, found))
        for key, reason in _unusable(found):
            left_out.setdefault((key, reason), []).append((tree.lines[name], name))
    for (key, reason), hosts in left_out.items():
        line, first = hosts[0]
        others = f" and {len(hosts) - 1} more hosts" if len(hosts) > 1 else ""
        lister.problem(line, f"variable '{key}' of host '{first}'{others} {reason}")


def _ordered(tree: _Tree, lister: Lister) -> list[str]:
    """The groups by depth and then by name: parents before their children. An edge that would close a cycle
    is left out."""
    depths = dict.fromkeys(tree.members, 0)
    waiting = {group: set[str]() for group in tree.members}
    for group, children in tree.children.items():
        for child in children:
            waiting[child].add(group)
    left = set(tree.members)
    while left:
        ready = sorted(group for group in left if not waiting[group] & left)
        if not ready:
            group = min(left)
            lister.problem(
                tree.group_lines.get(group, 0), f"group '{group}' is in a cycle of children"
            )
            for parent in waiting[group] & left:
                del tree.children[parent][group]
            waiting[group] = set()
            continue
        for group in ready:
            left.remove(group)
            for child in tree.children[group]:
                depths[child] = max(depths[child], depths[group] + 1)
    return sorted(depths, key=lambda group: (depths[group], group))


def _unusable(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that are no labels, and why."""
    for key, value in found.items():
        if key.startswith(OWN):
            continue
        if "{{" in value:
            yield key, "is a template: it is left out"
            continue
        try:
            check_labels({key: value})
        except InvalidInput as error:
            yield key, f"is left out: {error}"


def _entry(name: str, found: Mapping[str, str]) -> HostEntry:
    unusable = {key for key, _ in _unusable(found)}
    labels = {k: v for k, v in found.items() if not k.startswith(OWN) and k not in unusable}
    connection = found.get("ansible_connection", "")
    return HostEntry(
        name=name, driver=_DRIVERS.get(connection), address=_address(found), labels=labels
    )


def _address(found: Mapping[str, str]) -> str | None:
    """`user@host:port`, as far as the variables say it."""
    host = found.get("ansible_host", found.get("ansible_ssh_host"))
    if host is None:
        return None
    user = found.get("ansible_user", found.get("ansible_ssh_user"))
    port = found.get("ansible_port", found.get("ansible_ssh_port"))
    shown_host = f"[{host}]" if ":" in host and port else host
    return f"{user}@" * bool(user) + shown_host + f":{port}" * bool(port)
