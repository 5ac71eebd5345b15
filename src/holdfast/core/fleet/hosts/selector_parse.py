"""The parser of selectors: which hosts a text stands for.

    expr  = term { ("," | "&" | "!" | "^") term }     union, intersection, without, either-or
    term  = "*" | "(" expr ")" | "@" group | key op value | names
    op    = "=" | "!=" | "~"                          `~`: a glob with `*` and `?`
    key   = label | "fact." path | "driver" | "state" | "name"

All operators bind alike, from left to right, as in ClusterShell. `names` are those of `names.py`.
Promises: for every text either a tree or BadSelector with the character and what fits there. Length, depth,
the number of tests and the number of names are bounded, and no chain of operators makes the tree deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from holdfast.core.errors import BadSelector
from holdfast.core.fleet.hosts.names import FoldedName, check_count, read_name, read_quoted
from holdfast.core.search.scan import Scanner

SELECTOR_CHARS_MAX: Final = 65_536
SELECTOR_DEPTH_MAX: Final = 20
"""Parentheses around one term."""
TESTS_MAX: Final = 100
"""Groups and tests of labels in one selector. Names count only by their own bound."""
FACT: Final = "fact."
GROUP: Final = "@"
"""Stands before the name of a group."""
FIELDS: Final = ("driver", "state", "name")
"""Keys that are fields of the host. No label has such a name."""
LABEL_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
GROUP_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_TEST: Final = re.compile(rf"({LABEL_KEY.pattern})\s*(!=|=|~)\s*")
_VALUE: Final = re.compile(r"""[^\s,&!^()\[\]"'*?=~]+""")
_GLOB: Final = re.compile(r"""[^\s,&!^()\[\]"'=~]+""")
_TERM: Final = "a term: a name such as web-[01-20], key=value, @group, * or ( )"


class Operator(StrEnum):
    """How a term changes the hosts that stand before it."""

    UNION = ","
    BOTH = "&"
    WITHOUT = "!"
    EITHER = "^"


class AllHosts(msgspec.Struct, frozen=True):
    """`*`"""


class NamedHosts(msgspec.Struct, frozen=True):
    """Hosts by their names."""

    folded: FoldedName


class GroupRef(msgspec.Struct, frozen=True):
    """`@group`"""

    name: str
    at: int


class KeyTest(msgspec.Struct, frozen=True):
    """`key=value`, `key!=value` or `key~glob`."""

    key: str
    op: str
    value: str


class Chain(msgspec.Struct, frozen=True):
    """Terms with operators between them. The operator of the first one is a union with nothing."""

    steps: tuple[tuple[Operator, HostTerm], ...]


HostTerm: TypeAlias = AllHosts | NamedHosts | GroupRef | KeyTest | Chain


class Selector(msgspec.Struct, frozen=True):
    """A selector that was read."""

    text: str
    tree: Chain

    def names(self) -> frozenset[str]:
        """The names of hosts that it mentions, not those of its groups."""
        return frozenset(
            name
            for term in _leaves(self.tree)
            if isinstance(term, NamedHosts)
            for name in term.folded.names()
        )

    def groups(self) -> frozenset[str]:
        """The groups that it mentions."""
        return frozenset(term.name for term in _leaves(self.tree) if isinstance(term, GroupRef))

    def labels(self) -> frozenset[str]:
        """The labels that it asks for."""
        keys = {term.key for term in _leaves(self.tree) if isinstance(term, KeyTest)}
        return frozenset(key for key in keys if key not in FIELDS and not key.startswith(FACT))


def may_ask_facts(selector: str | None) -> bool:
    """Whether a selector asks for facts of hosts, or names a group, which may."""
    return selector is not None and (FACT in selector or GROUP in selector)


def parse(text: str) -> Selector:
    """The selector that the text stands for. BadSelector says where it cannot be read."""
    if len(text) > SELECTOR_CHARS_MAX:
        raise BadSelector(
            SELECTOR_CHARS_MAX, f"the end of the selector: at most {SELECTOR_CHARS_MAX} characters"
        )
    return Selector(text, _SelectorParser(text).selector())


@lru_cache(maxsize=256)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """The glob as a regular expression for `fullmatch`. Its cost is bounded: no star is tried twice."""
    first, *others = (
        "".join("." if char == "?" else re.escape(char) for char in part)
        for part in re.sub(r"\*+", "*", glob).split("*")
    )
    if not others:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(f"{first}{middle}.*{others[-1]}", re.DOTALL)


def _leaves(chain: Chain) -> Iterator[HostTerm]:
    for _, term in chain.steps:
        if isinstance(term, Chain):
            yield from _leaves(term)
        else:
            yield term


class _SelectorParser:
    __slots__ = ("_depth", "_names", "_scanner", "_tests")

    def __init__(self, text: str) -> None:
        self._scanner = Scanner(text)
        self._depth = 0
        self._names = 0
        self._tests = 0

    def selector(self) -> Chain:
        chain = self._chain()
        if self._scanner.char == ")":
            raise BadSelector(self._scanner.at, "an opening parenthesis before this one")
        return chain

    def _chain(self) -> Chain:
        """Terms up to the end or a closing parenthesis."""
        scanner = self._scanner
        steps = [(Operator.UNION, self._term())]
        while True:
            scanner.skip_blanks()
            if scanner.char in ("", ")"):
                return Chain(tuple(steps))
            steps.append((self._operator(), self._term()))

    def _operator(self) -> Operator:
        scanner = self._scanner
        for operator in Operator:
            if scanner.take(operator.value):
                return operator
        if scanner.char in ("*", "?"):
            raise BadSelector(scanner.at, "a whole name; a glob is written name~web-*")
        if scanner.char == "|":
            raise BadSelector(scanner.at, "a comma for a union")
        raise BadSelector(scanner.at, "an operator: , & ! or ^; or quotes around a name")

    def _term(self) -> HostTerm:
        scanner = self._scanner
        scanner.skip_blanks()
        start = scanner.at
        if scanner.take("*"):
            return AllHosts()
        if scanner.take("("):
            return self._group(start)
        if scanner.take(GROUP):
            return self._group_ref(start)
        if (match := scanner.take_match(_TEST)) is not None:
            return self._key_test(start, match[1], match[2])
        if scanner.char in ("!", "&", "^", ","):
            hint = f"a term before {scanner.char}, such as *" if start == 0 else _TERM
            raise BadSelector(start, hint)
        if scanner.char in ("", ")"):
            raise BadSelector(start, _TERM)
        folded = read_name(scanner)
        self._names += folded.size
        check_count(start, self._names)
        return NamedHosts(folded)

    def _group(self, start: int) -> Chain:
        self._depth += 1
        if self._depth > SELECTOR_DEPTH_MAX:
            raise BadSelector(start, f"a term: at most {SELECTOR_DEPTH_MAX} levels of parentheses")
        chain = self._chain()
        if not self._scanner.take(")"):
            raise BadSelector(start, "a closing parenthesis for this one")
        self._depth -= 1
        return chain

    def _group_ref(self, start: int) -> GroupRef:
        self._count(start)
        match = self._scanner.take_match(GROUP_NAME)
        if match is None:
            raise BadSelector(self._scanner.at, "the name of a group")
        return GroupRef(match[0], start)

    def _key_test(self, start: int, key: str, op: str) -> KeyTest:
        self._count(start)
        if key.startswith(FACT) and not all(key.split(".")):
            raise BadSelector(start, "a path of a fact such as fact.os.name")
        return KeyTest(key, op, self._value(op))

    def _value(self, op: str) -> str:
        """Bare and quoted text. A glob has no quotes, because a quoted star would look like any other."""
        scanner, taken = self._scanner, ""
        start = scanner.at
        while True:
            if op != "~" and scanner.char in ('"', "'"):
                taken += read_quoted(scanner)
            elif (match := scanner.take_match(_GLOB if op == "~" else _VALUE)) is not None:
                taken += match[0]
            else:
                break
        if op != "~" and scanner.char in ("*", "?"):
            raise BadSelector(scanner.at, "a whole value; a glob is written key~web*")
        if scanner.at == start:
            raise BadSelector(start, "a value, quoted if it is empty or has blanks or operators")
        if not taken.isprintable():
            raise BadSelector(start, "printable characters")
        return taken

    def _count(self, at: int) -> None:
        self._tests += 1
        if self._tests > TESTS_MAX:
            raise BadSelector(at, f"the end of the selector: at most {TESTS_MAX} tests and groups")
