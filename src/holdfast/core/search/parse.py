"""The parser of the search grammar.

    query = [clauses]                       space is AND and binds closer than OR
    clauses = all { "OR" all }
    all = clause { clause }
    clause = "-" clause | "(" clauses ")" | key ":" tests | value | "sort:" ["-"] key
    tests = test { "," test }               any of them
    test = value | "~" value | (">" | ">=" | "<" | "<=") bound | bound ".." bound

A value without a key is the prefix of an id. `sort` stands outside parentheses, once.
Promises: for every text either a tree whose values fit their keys, or QueryError. Length, depth and the
number of tests are bounded.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from holdfast.core.search.items import parse_test
from holdfast.core.search.keys import ID, SORT, SORTED, TASK_KEYS, Key, Keys, Kind
from holdfast.core.search.scan import QueryError, Scanner
from holdfast.core.search.tree import And, Clause, Glob, Not, Or, Query, Sort, Term, Test

__all__ = ["CHARS_MAX", "DEPTH_MAX", "TESTS_MAX", "QueryError", "parse"]

CHARS_MAX: Final = 2_000
DEPTH_MAX: Final = 20
"""Parentheses and minus signs around one term."""
TESTS_MAX: Final = 100
"""Values in one query."""
PATH_MAX: Final = 16
OR: Final = "OR"
_TERM: Final = "a term: key:value, the start of an id, or ( )"
_NOT_WORDS: Final = {
    "AND": "a term: a space between terms means AND; quote the word to find an id",
    "NOT": "a term: a minus before a term means NOT; quote the word to find an id",
    OR: "a term before OR; quote the word to find an id",
}
_SEGMENT: Final = re.compile(r"[\w-]+")
_SIGN: Final = re.compile(r"([=<>]=?)")


def parse(text: str, keys: Keys = TASK_KEYS) -> Query:
    """The query that the text stands for. QueryError says where it cannot be read."""
    if len(text) > CHARS_MAX:
        raise QueryError(CHARS_MAX, f"the end of the query: at most {CHARS_MAX} characters")
    return _Parser(text, keys).query()


class _Parser:
    __slots__ = ("_depth", "_keys", "_scanner", "_sort", "_tests")

    def __init__(self, text: str, keys: Keys) -> None:
        self._scanner = Scanner(text)
        self._keys = keys
        self._depth = 0
        self._tests = 0
        self._sort: Sort | None = None

    def query(self) -> Query:
        clause = self._clauses(needed=False)
        if self._scanner.char:
            raise QueryError(self._scanner.at, _TERM)
        return Query(clause, self._sort)

    def _clauses(self, *, needed: bool) -> Clause | None:
        """Clauses with OR between them. None when there is none and none is needed."""
        first = self._all()
        choices = [] if first is None else [first]
        while choices and self._takes_or():
            following = self._all()
            if following is None:
                raise QueryError(self._scanner.at, _TERM)
            choices.append(following)
        if not choices and needed:
            raise QueryError(self._scanner.at, _TERM)
        return Or(tuple(choices)) if len(choices) > 1 else first

    def _all(self) -> Clause | None:
        """Clauses with spaces between them."""
        clauses: list[Clause] = []
        while True:
            self._scanner.skip_blanks()
            if not self._scanner.char or self._scanner.char == ")":
                break
            if clauses and self._scanner.word_ahead() == OR:
                break
            if not self._takes_sort():
                clauses.append(self._clause())
        if len(clauses) > 1:
            return And(tuple(clauses))
        return clauses[0] if clauses else None

    def _takes_or(self) -> bool:
        return self._scanner.word_ahead() == OR and self._scanner.take(OR)

    def _clause(self) -> Clause:
        start = self._scanner.at
        if self._scanner.char not in ("-", "("):
            return self._term()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise QueryError(start, f"a term: at most {DEPTH_MAX} levels of ( and -")
        clause = Not(self._clause()) if self._scanner.take("-") else self._group(start)
        self._depth -= 1
        return clause

    def _group(self, start: int) -> Clause:
        self._scanner.take("(")
        clause = self._clauses(needed=True)
        assert clause is not None
        if not self._scanner.take(")"):
            raise QueryError(start, "a closing parenthesis for this one")
        self._end_of_term()
        return clause

    def _term(self) -> Term:
        start = self._scanner.at
        word = self._scanner.word_ahead()
        if word in _NOT_WORDS:
            raise QueryError(start, _NOT_WORDS[word])
        name, colon, _ = word.partition(":")
        if not colon:
            self._check_sign(word)
            return self._id_prefix()
        key, path = self._key(name)
        self._scanner.at += len(name) + 1
        tests = [self._test(key)]
        while self._scanner.take(","):
            tests.append(self._test(key))
        self._end_of_term()
        return Term(key.name, tuple(tests), path)

    def _check_sign(self, word: str) -> None:
        """`status=failed` is a slip, and not the prefix of an id that no task has."""
        found = _SIGN.search(word)
        name = "" if found is None else word[: found.start()]
        if found is None or name not in self._keys:
            return
        test = word[found.start() :].removeprefix("=").removeprefix("=")
        raise QueryError(
            self._scanner.at + len(name),
            f"a colon: write {name}:{test}, or quote an id that has '{found[0]}'",
        )

    def _key(self, written: str) -> tuple[Key, tuple[str, ...]]:
        start = self._scanner.at
        name, *path = written.split(".")
        key = self._keys.get(name)
        if name == SORT and not path:
            raise QueryError(start, "sort outside parentheses, without a minus before it")
        if key is None or (path and key.kind is not Kind.JSON):
            names = sorted((*self._keys, SORT))
            close = get_close_matches(name, names, n=1)
            guess = f"did you mean {close[0]}? " if close else ""
            expected = f"one of the keys {', '.join(names)}; {guess}quote an id that has a colon"
            raise QueryError(start, expected)
        if key.kind is Kind.JSON and not (
            1 <= len(path) <= PATH_MAX and all(map(_SEGMENT.fullmatch, path))
        ):
            fields = f"1 to {PATH_MAX} names of letters, digits, _ and -"
            raise QueryError(start + len(name), f"a path such as .user.id: {fields}")
        return key, tuple(path)

    def _test(self, key: Key) -> Test:
        self._count()
        return parse_test(self._scanner, key)

    def _id_prefix(self) -> Term:
        key = self._keys.get(ID)
        if key is None:
            raise QueryError(self._scanner.at, "key:value")
        self._count()
        first, *others = self._scanner.value(_TERM).parts
        self._end_of_term()
        middle = others[:-1] if others and not others[-1] else others
        return Term(ID, (Glob((first, *middle, "")),))

    def _takes_sort(self) -> bool:
        if self._depth or not self._scanner.word_ahead().startswith(f"{SORT}:"):
            return False
        start = self._scanner.at
        if self._sort is not None:
            raise QueryError(start, "one sort only")
        self._scanner.take(f"{SORT}:")
        descending = self._scanner.take("-")
        at = self._scanner.at
        name = self._scanner.word_ahead()
        if name not in SORTED:
            raise QueryError(at, f"one of {', '.join(SORTED)}")
        self._scanner.at += len(name)
        self._end_of_term()
        self._sort = Sort(name, descending)
        return True

    def _count(self) -> None:
        self._tests += 1
        if self._tests > TESTS_MAX:
            raise QueryError(self._scanner.at, f"the end of the query: at most {TESTS_MAX} values")

    def _end_of_term(self) -> None:
        if not self._scanner.ends():
            raise QueryError(self._scanner.at, "a space, or quotes around the value")
