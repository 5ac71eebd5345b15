"""Which hosts a selector selects.

Promises: the same hosts, groups and text give the same hosts, sorted by name, each once. A name that no host
has is UnknownHost; a label or glob may match nothing. A test of a key that a host lacks fails, so
`key!=value` holds there. Hosts that are gone are never selected. Groups may have groups, never in a cycle.
Never: reads the store. The caller gives all hosts of the project.

The grammar is in `selector_parse.py`, and folded names are in `names.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from difflib import get_close_matches
from typing import Final, assert_never

from holdfast.core.codec import Json
from holdfast.core.errors import BadSelector, EmptySelection, UnknownHost
from holdfast.core.fleet.hosts.names import fold, unfold
from holdfast.core.fleet.hosts.selector_parse import (
    FACT,
    AllHosts,
    Chain,
    GroupRef,
    HostTerm,
    KeyTest,
    NamedHosts,
    Operator,
    Selector,
    glob_pattern,
    parse,
)
from holdfast.core.fleet.model import Host, HostState

__all__ = [
    "HostIndex",
    "Selector",
    "evaluate",
    "fold",
    "matches",
    "parse",
    "pick",
    "selected",
    "unfold",
]

GROUP_DEPTH_MAX: Final = 20
"""Groups within groups."""
GROUPS_SHOWN: Final = 10


def evaluate(
    selector: Selector, hosts: Sequence[Host], groups: Mapping[str, Selector]
) -> list[Host]:
    """The hosts, sorted by name. UnknownHost for names without a host. A name in a group may lack its host:
    groups outlive hosts."""
    index = HostIndex(hosts, groups)
    if missing := sorted(selector.names() - index.by_name.keys()):
        raise UnknownHost(missing)
    return sorted(index.select(selector), key=lambda host: host.name)


def selected(
    selector: Selector, hosts: Sequence[Host], groups: Mapping[str, Selector]
) -> list[Host]:
    """As `evaluate`, and EmptySelection if there is none."""
    found = evaluate(selector, hosts, groups)
    if not found:
        raise no_match(selector, hosts)
    return found


def no_match(selector: Selector, hosts: Sequence[Host]) -> EmptySelection:
    """The error about a selector without a host. `hosts`: all of the project."""
    text = f"no host matches {selector.text[:200]!r}: the job would do nothing"
    known = {label for host in hosts for label in host.labels}
    for label in sorted(selector.labels() - known):
        close = get_close_matches(label, sorted(known), n=1)
        guess = f"; did you mean {close[0]}?" if close else ""
        text += f"; no host has the label {label}{guess}"
    return EmptySelection(text)


def matches(selector: Selector, host: Host, groups: Mapping[str, Selector]) -> bool:
    """Whether the selector selects this host. Names of other hosts are not looked up."""
    return bool(HostIndex((host,), groups).select(selector))


def pick(names: Sequence[str], hosts: Sequence[Host]) -> list[Host]:
    """The hosts with these names or ids, sorted by name, each once. UnknownHost says which are missing and
    where they stand, EmptySelection that there is none."""
    if not names:
        raise EmptySelection("hosts is empty: name at least one host")
    by_name = _index(hosts)
    missing = [(at, name) for at, name in enumerate(names) if name not in by_name]
    if missing:
        raise UnknownHost([name for _, name in missing], [f"hosts[{at}]" for at, _ in missing])
    found = {by_name[name] for name in names}
    return sorted((hosts[at] for at in found), key=lambda host: host.name)


def check_groups(groups: Mapping[str, Selector]) -> None:
    """BadSelector if a group is in a cycle, too deep, or names a group that does not exist."""
    index = HostIndex((), groups)
    for name in groups:
        index.group(GroupRef(name, 0))


def _index(hosts: Sequence[Host]) -> dict[str, int]:
    """The place of each host by its id and its name. A name counts before an id of another host."""
    present = [(at, host) for at, host in enumerate(hosts) if host.state is not HostState.GONE]
    return {host.id: at for at, host in present} | {host.name: at for at, host in present}


class HostIndex:
    """Hosts to be selected by any number of selectors. Sets have places of hosts. Labels and facts are
    decoded once, the hosts of a value are found once, and groups are evaluated once."""

    def __init__(self, hosts: Sequence[Host], groups: Mapping[str, Selector]) -> None:
        self._hosts = hosts
        self._groups = groups
        self._found: dict[str, frozenset[int]] = {}
        self._path: list[str] = []
        self._labels: list[tuple[int, dict[str, str]]] | None = None
        self._facts: list[tuple[int, dict[str, Json]]] | None = None
        self._places: dict[str, dict[str, set[int]]] = {}
        """By key and value."""
        self.by_name = _index(hosts)
        self.all = frozenset(self.by_name.values())

    def select(self, selector: Selector) -> list[Host]:
        """The hosts that the selector selects, in no order. Names that none of them has count for nothing.
        BadSelector if it names a group that does not exist."""
        return [self._hosts[at] for at in self.chain(selector.tree)]

    def chain(self, chain: Chain) -> set[int]:
        found: set[int] = set()
        for operator, term in chain.steps:
            hosts = self._term(term)
            match operator:
                case Operator.UNION:
                    found |= hosts
                case Operator.BOTH:
                    found &= hosts
                case Operator.WITHOUT:
                    found -= hosts
                case Operator.EITHER:
                    found ^= hosts
        return found

    def group(self, ref: GroupRef) -> frozenset[int]:
        if ref.name in self._found:
            return self._found[ref.name]
        if ref.name not in self._groups:
            known = ", ".join(sorted(self._groups)[:GROUPS_SHOWN]) or "none is defined"
            raise BadSelector(ref.at, f"a group, not @{ref.name}: {known}")
        if ref.name in self._path:
            cycle = " -> ".join((*self._path[self._path.index(ref.name) :], ref.name))
            raise BadSelector(ref.at, f"groups without a cycle, not {cycle}")
        if len(self._path) >= GROUP_DEPTH_MAX:
            raise BadSelector(ref.at, f"at most {GROUP_DEPTH_MAX} levels of groups")
        self._path.append(ref.name)
        found = frozenset(self.chain(self._groups[ref.name].tree))
        self._path.pop()
        self._found[ref.name] = found
        return found

    def _term(self, term: HostTerm) -> AbstractSet[int]:
        match term:
            case AllHosts():
                return self.all
            case NamedHosts():
                names = term.folded.names()
                return {self.by_name[name] for name in names if name in self.by_name}
            case GroupRef():
                return self.group(term)
            case KeyTest():
                return self._test(term)
            case Chain():
                return self.chain(term)
            case _:
                assert_never(term)

    def _test(self, test: KeyTest) -> AbstractSet[int]:
        places = self._places_of(test.key)
        if test.op == "~":
            fullmatch = glob_pattern(test.value).fullmatch
            return set().union(*(places[value] for value in places if fullmatch(value) is not None))
        found: AbstractSet[int] = places.get(test.value, frozenset())
        return found if test.op == "=" else self.all - found

    def _places_of(self, key: str) -> dict[str, set[int]]:
        """The places of the hosts that have each value of the key."""
        if key not in self._places:
            places: dict[str, set[int]] = {}
            for at, value in self._values(key):
                places.setdefault(value, set()).add(at)
            self._places[key] = places
        return self._places[key]

    def _values(self, key: str) -> list[tuple[int, str]]:
        """The values of the key with the places of their hosts."""
        hosts = self._hosts
        match key:
            case "name":
                return [(at, hosts[at].name) for at in self.all]
            case "driver":
                return [(at, hosts[at].driver.value) for at in self.all]
            case "state":
                return [(at, hosts[at].state.value) for at in self.all]
        if key.startswith(FACT):
            return self._fact_values(key.removeprefix(FACT).split("."))
        if self._labels is None:
            self._labels = [(at, hosts[at].labels) for at in self.all]
        return [(at, labels[key]) for at, labels in self._labels if key in labels]

    def _fact_values(self, path: list[str]) -> list[tuple[int, str]]:
        if self._facts is None:
            self._facts = [(at, self._hosts[at].facts) for at in self.all]
        return [(at, value) for at, facts in self._facts for value in _texts(_inner(facts, path))]


def _inner(facts: dict[str, Json], path: list[str]) -> Json:
    value: Json = facts
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _texts(value: Json) -> list[str]:
    """A fact as text: numbers and true or false as in JSON; a list has the texts of its items."""
    match value:
        case None | dict():
            return []
        case str():
            return [value]
        case bool():
            return ["true" if value else "false"]
        case list():
            return [text for item in value if not isinstance(item, list) for text in _texts(item)]
        case _:
            return [str(value)]
