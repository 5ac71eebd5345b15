"""The search grammar: what it reads, what it refuses and where, what it means."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, strategies as st

from holdfast.core.search import NAMED, QueryError, matches, needs_scope, parse, show
from holdfast.core.search.keys import Key, Kind, table
from holdfast.core.search.matching import is_like
from holdfast.core.search.parse import CHARS_MAX, DEPTH_MAX, TESTS_MAX
from holdfast.core.search.scan import STARS_MAX
from holdfast.core.search.sql_text import after_prefix
from holdfast.core.search.tree import (
    And,
    Between,
    Compare,
    Comparison,
    Contains,
    Exact,
    Glob,
    Not,
    Or,
    Query,
    Sort,
    Term,
)
from tests.unit.core.search_support import NOW, queries, rows

DAY = 86_400.0
MIDNIGHT = 1_763_164_800.0
"""2025-11-15T00:00:00Z"""


def term(key: str, *tests: Exact | Glob | Contains | Compare | Between) -> Term:
    return Term(key, tests)


FAILED = term("status", Exact("failed"))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        (" \t\n", Query()),
        ("status:failed", Query(FAILED)),
        ("status:failed,stuck", Query(term("status", Exact("failed"), Exact("stuck")))),
        ("0199ab", Query(term("id", Glob(("0199ab", ""))))),
        ("0199*ab", Query(term("id", Glob(("0199", "ab", ""))))),
        ('"a b:c"', Query(term("id", Glob(("a b:c", ""))))),
        ('"OR"', Query(term("id", Glob(("OR", ""))))),
        ("type:email.*", Query(term("type", Glob(("email.", ""))))),
        ("type:a**b", Query(term("type", Glob(("a", "b"))))),
        ('type:"a*b"', Query(term("type", Exact("a*b")))),
        ('type:"a b"*c', Query(term("type", Glob(("a b", "c"))))),
        ("held:user:ann", Query(term("held", Exact("user:ann")))),
        ('error:~"connection refused"', Query(term("error", Contains("connection refused")))),
        (r'error:~"a\"b\\c\d"', Query(term("error", Contains(r'a"b\c\d')))),
        ("age:>1h30m", Query(term("age", Compare(Comparison.ABOVE, "1h30m")))),
        ("attempt:>=3", Query(term("attempt", Compare(Comparison.AT_LEAST, "3")))),
        ("attempt:<=3,7", Query(term("attempt", Compare(Comparison.AT_MOST, "3"), Exact("7")))),
        ("updated:2026-08-01..now", Query(term("updated", Between("2026-08-01", "now")))),
        ("error:1..2", Query(term("error", Exact("1..2")))),
        ("args.user.id:42", Query(Term("args", (Exact("42"),), ("user", "id")))),
        ("meta.cost:1..2.5", Query(Term("meta", (Between("1", "2.5"),), ("cost",)))),
        ("meta.path:../x", Query(Term("meta", (Exact("../x"),), ("path",)))),
        ("-status:failed", Query(Not(FAILED))),
        ("--status:failed", Query(Not(Not(FAILED)))),
        ("status:failed a OR b", Query(Or((And((FAILED, term("id", Glob(("a", ""))))),
                                           term("id", Glob(("b", ""))))))),
        ("a (b OR -(c d))", Query(And((term("id", Glob(("a", ""))), Or((
            term("id", Glob(("b", ""))),
            Not(And((term("id", Glob(("c", ""))), term("id", Glob(("d", "")))))),
        )))))),
        ("sort:-age", Query(None, Sort("age", descending=True))),
        ("sort:created status:failed", Query(FAILED, Sort("created"))),
        ("status:failed OR status:failed sort:updated", Query(Or((FAILED, FAILED)), Sort("updated"))),
    ],
)  # fmt: skip
def test_reads(text: str, query: Query) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("a OR", 4, "a term"),
        ("OR a", 0, "before OR"),
        ("a OR OR b", 5, "before OR"),
        ("a AND b", 2, "a space between terms means AND"),
        ("NOT a", 0, "a minus"),
        ("(a", 0, "closing parenthesis"),
        ("x (a", 2, "closing parenthesis"),
        ("a)", 1, "a term"),
        ("()", 1, "a term"),
        ("(a)b", 3, "a space"),
        ("- a", 1, "a term"),
        ("a,b", 1, "a space"),
        ('type:"a', 5, "closing quote"),
        ("type:", 5, "a value"),
        ("type:a,", 7, "a value"),
        ("type:a(b)", 6, "a space"),
        ("colour:red", 0, "one of the keys age, args"),
        ("status.x:a", 0, "one of the keys"),
        ("status=failed", 6, "a colon: write status:failed, or quote an id that has '='"),
        ("type:a attempt>=2", 14, "a colon: write attempt:>=2"),
        ("args:1", 4, "a path"),
        ("args.a..b:1", 4, "a path"),
        ("status:fialed", 7, "one of blocked, queued"),
        ("type:>a", 5, "has no order"),
        ("age:~1", 4, "is not text"),
        ("attempt:many", 8, "a number"),
        ("attempt:1*", 8, "without a star"),
        ("attempt:1234567890123456", 8, "15 digits"),
        ("priority:urgent", 9, "critical, high, normal, low, or a number"),
        ("args.n:>x", 8, "a number"),
        ("age:1h", 4, "a range of durations"),
        ("age:>soon", 5, "a duration"),
        ("created:-2h", 8, "or a date"),
        ("created:>2026-02-30", 9, "a date"),
        ("created:2026-01-01..tomorrow", 20, "a date"),
        ("created:2026-01-01..", 8, "a date"),
        ("lock:lost", 5, "one of held, expired"),
        ("decision:closed", 9, "one of open"),
        ("sort:size", 5, "one of created, updated, age"),
        ("sort:age sort:age", 9, "one sort only"),
        ("(sort:age)", 1, "outside parentheses"),
        ("-sort:age", 1, "outside parentheses"),
        ('type:"a\x00"', 7, "a printable character"),
        ("a\u202eb", 1, "a printable character"),
        ("error:~a*", 7, "without a star"),
        ("type:" + "*a" * (STARS_MAX + 1), 5 + 2 * STARS_MAX, "stars"),
        ("(" * (DEPTH_MAX + 1), DEPTH_MAX, f"at most {DEPTH_MAX} levels"),
        ("-" * 1_999 + "a", DEPTH_MAX, f"at most {DEPTH_MAX} levels"),
        ("a " * (TESTS_MAX + 1), 2 * TESTS_MAX, f"at most {TESTS_MAX} values"),
        ("a" * (CHARS_MAX + 1), CHARS_MAX, f"at most {CHARS_MAX} characters"),
    ],
)
def test_refuses_and_points_at_the_character(text: str, at: int, expected: str) -> None:
    with pytest.raises(QueryError) as error:
        parse(text)
    assert expected in error.value.expected
    assert error.value.at == at
    assert error.value.code == "invalid-input"


def test_a_list_without_ids_has_no_bare_words() -> None:
    keys = table(Key("state", Kind.TEXT, words=("open",)))
    assert parse("state:open", keys) == Query(term("state", Exact("open")))
    with pytest.raises(QueryError, match="character 0: expected key:value"):
        parse("abc", keys)


@given(queries)
def test_shown_text_reads_as_the_same_query(query: Query) -> None:
    assert parse(show(query)) == query


SIGNS = [
    "OR",
    "-",
    "(",
    ")",
    '"',
    "*",
    "..",
    ",",
    ":",
    "~",
    ">",
    "<=",
    " ",
    "\\",
    "\x00",
    "\ud800",
    "é",
]
WORDS = [
    "status:",
    "age:",
    "args.",
    "args.a:",
    "created:",
    "sort:",
    "lock:",
    "2026-11-15",
    "1h",
    "now",
    "1",
    "a",
]
TOKENS = [*SIGNS, *WORDS]


@given(st.one_of(
    st.lists(st.sampled_from(TOKENS), max_size=30).map("".join),
    st.text(max_size=60),
    st.text(alphabet=string.printable, max_size=60),
))  # fmt: skip
def test_every_text_is_read_or_refused(text: str) -> None:
    """No other error, the position lies in the text, and what was read is read again from its own text."""
    query = read(text)
    if isinstance(query, QueryError):
        assert 0 <= query.at <= len(text)
        assert query.expected
    else:
        assert parse(show(query)) == query


def read(text: str) -> Query | QueryError:
    try:
        return parse(text)
    except QueryError as error:
        return error


@pytest.mark.parametrize(
    ("text", "row", "answer"),
    [
        ("status:failed,stuck", {"status": "stuck"}, True),
        ("status:failed,stuck", {"status": "queued"}, False),
        ("-status:failed", {"status": "queued"}, True),
        ("-node:*", {"node": None}, True),
        ("node:web-*", {"node": "web-7"}, True),
        ("node:web-*", {"node": "Web-7"}, False),
        ("node:*-*-b", {"node": "a-b"}, False),
        ("0199", {"id": "0199ab"}, True),
        ("199", {"id": "0199ab"}, False),
        ("id:task-1", {"id": "0199ab", NAMED: "task-1"}, True),
        ("-id:task-1", {"id": "0199ab", NAMED: "task-1"}, False),
        ("task-", {"id": "0199ab", NAMED: "task-1"}, False),
        ("id:None", {"id": "0199ab"}, False),
        ('error:~"Refused"', {"error": "connection refused"}, True),
        ('error:~"é"', {"error": "É"}, False),
        ("priority:high", {"priority": 1}, True),
        ("priority:<normal", {"priority": 1}, True),
        ("attempt:2..3", {"attempt": 3}, True),
        ("attempt:>3", {"attempt": 3}, False),
        ("args.user.id:42", {"args": {"user": {"id": 42}}}, True),
        ("args.user.id:42", {"args": {"user": {"id": "42"}}}, True),
        ("args.user.id:42", {"args": {"user": {"id": 42.0}}}, True),
        ("args.user.id:42", {"args": {"user": [42]}}, False),
        ("args.user.id:42", {"args": None}, False),
        ("args.on:true", {"args": {"on": True}}, True),
        ("args.on:1", {"args": {"on": True}}, False),
        ("args.on:>0", {"args": {"on": True}}, False),
        ("args.x:*", {"args": {"x": None}}, False),
        ("args.x:*", {"args": {"x": []}}, True),
        ("age:>1h", {"created": NOW - 3601}, True),
        ("age:>1h", {"created": NOW - 3600}, False),
        ("age:>=1h", {"created": NOW - 3600}, True),
        ("age:1h..2h", {"created": NOW - 3600}, True),
        ("age:1h..2h", {"created": NOW - 7201}, False),
        ("created:2025-11-15", {"created": MIDNIGHT}, True),
        ("created:2025-11-15", {"created": MIDNIGHT + DAY}, False),
        ("created:>2025-11-15", {"created": MIDNIGHT + 1}, False),
        ("created:>2025-11-15", {"created": MIDNIGHT + DAY}, True),
        ("created:<=2025-11-15", {"created": MIDNIGHT + DAY - 1}, True),
        ("created:<2025-11-15", {"created": MIDNIGHT}, False),
        ("created:2025-11-15..2025-11-16", {"created": MIDNIGHT + DAY + 1}, True),
        ("created:2025-11-15T01:00+01:00", {"created": MIDNIGHT + 59}, True),
        ("created:2025-11-15T00:00:01.25Z", {"created": MIDNIGHT + 1.2505}, True),
        ("due:<+10m", {"due": NOW + 599}, True),
        ("due:<+10m", {"due": NOW + 600}, False),
        ("updated:-1h..now", {"updated": NOW}, True),
        ("finished:*", {"finished": None}, False),
        ("lock:held", {"lock": NOW + 1}, True),
        ("lock:held", {"lock": NOW}, False),
        ("lock:expired", {"lock": NOW}, True),
        ("lock:expired", {"lock": None}, False),
        ("decision:open", {"decision": "open"}, True),
        ("a OR status:failed", {"id": "b", "status": "failed"}, True),
        ("", {}, True),
    ],
)
def test_matches(text: str, row: dict[str, object], answer: bool) -> None:
    assert matches(parse(text), row, NOW) is answer


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("", True),
        ("sort:created", True),
        ("status:failed", False),
        ("-status:failed", True),
        ("status:*", True),
        ("status:f*", True),
        ("type:a,b", False),
        ("type:a,b*", True),
        ('type:~"a"', True),
        ("0199", False),
        ("*99", True),
        ("job:j", False),
        ("host:h", True),
        ("host:h job:j", False),
        ("project:p", False),
        ("queue:q", False),
        ("fingerprint:f", False),
        ("created:>2026-01-01", False),
        ("age:<1h", False),
        ("updated:>2026-01-01", True),
        ("node:n", True),
        ("args.a:1", True),
        ("node:n status:failed", False),
        ("node:n OR status:failed", True),
        ("queue:q OR status:failed", False),
        ("(node:n OR status:failed) type:t", False),
    ],
)
def test_a_query_without_an_index_is_bounded_to_the_newest(text: str, needed: bool) -> None:
    assert needs_scope(parse(text)) is needed


@given(
    st.text(alphabet="ab", max_size=8),
    st.lists(st.text(alphabet="ab", max_size=2), min_size=2, max_size=4),
)
def test_a_glob_is_the_regular_expression(text: str, parts: list[str]) -> None:
    pattern = ".*".join(parts)
    assert is_like(text, tuple(parts)) is (re.fullmatch(pattern, text) is not None)


@given(st.text(min_size=1).filter(lambda t: t.isprintable()), st.text(max_size=3))
def test_the_end_of_a_prefix_is_above_all_that_have_it(prefix: str, rest: str) -> None:
    end = after_prefix(prefix)
    assert end is not None
    assert prefix + rest < end
    assert not end.startswith(prefix)
    end.encode()


@given(queries, rows)
def test_a_negation_holds_where_the_query_does_not(
    query: Query, drawn: list[dict[str, object]]
) -> None:
    if query.clause is not None:
        negated = Query(Not(query.clause))
        assert all(matches(negated, row, NOW) is not matches(query, row, NOW) for row in drawn)
