"""Selectors: what they read, which hosts they select, what they refuse and where."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.errors import HOSTS_NAMED_MAX, BadSelector, EmptySelection, UnknownHost
from holdfast.core.fleet.hosts.names import NAMES_MAX, quoted
from holdfast.core.fleet.hosts.selector import (
    GROUP_DEPTH_MAX,
    check_groups,
    evaluate,
    matches,
    parse,
    pick,
    selected,
)
from holdfast.core.fleet.hosts.selector_parse import (
    SELECTOR_CHARS_MAX,
    SELECTOR_DEPTH_MAX,
    TESTS_MAX,
    glob_pattern,
)
from holdfast.core.fleet.model import UNREAD, Host, HostDriver, HostState
from tests.unit.core.fleet.fleet_support import host

HOSTS = [
    host("web-01", {"role": "web", "env": "prod"}, facts={"os": {"name": "debian"}, "cpus": 4}),
    host("web-02", {"role": "web", "env": "dev"}, facts={"os": {"name": "alpine"}, "up": True}),
    host("web-03", {"role": "web", "env": "prod"}, state=HostState.CORDONED),
    host("db-1", {"role": "db", "env": "prod"}, facts={"ips": ["10.0.0.1", "10.0.0.2"]}),
    host("db-2", {"role": "db"}, driver=HostDriver.SSH),
    host("old-1", {"role": "web"}, state=HostState.GONE),
    host("a b"),
]
GROUPS = {
    "web": parse("role=web"),
    "drained": parse("state=cordoned"),
    "ready": parse("@web!@drained"),
    "stale": parse("web-01,no-such-host"),
}


def names(text: str, hosts: list[Host] = HOSTS) -> list[str]:
    return [each.name for each in evaluate(parse(text), hosts, GROUPS)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*", "a b,db-1,db-2,web-01,web-02,web-03"),
        ("web-01", "web-01"),
        ("hst_web-01", "web-01"),
        ("web-[01-03]", "web-01,web-02,web-03"),
        ("web-[01-03]!web-02", "web-01,web-03"),
        ("db-[1,2],web-01", "db-1,db-2,web-01"),
        ('"a b"', "a b"),
        ("role=web", "web-01,web-02,web-03"),
        ("role = web", "web-01,web-02,web-03"),
        ("role!=web", "a b,db-1,db-2"),
        ("env!=prod", "a b,db-2,web-02"),
        ("role=web&env=prod", "web-01,web-03"),
        ("role=web&env=prod!@drained", "web-01"),
        ("role=web^env=prod", "db-1,web-02"),
        ("role=web,role=db&env=prod", "db-1,web-01,web-03"),
        ("role=web,(role=db&env=prod)", "db-1,web-01,web-02,web-03"),
        ("@ready", "web-01,web-02"),
        ("@stale", "web-01"),
        ("role~w*", "web-01,web-02,web-03"),
        ("name~*-?", "db-1,db-2"),
        ("name~web*1", "web-01"),
        ("name=db-1", "db-1"),
        ("driver=ssh", "db-2"),
        ("state=cordoned", "web-03"),
        ("state=gone", ""),
        ("fact.os.name=debian", "web-01"),
        ("fact.cpus=4", "web-01"),
        ("fact.up=true", "web-02"),
        ("fact.ips=10.0.0.2", "db-1"),
        ("fact.os=debian", ""),
        ("role=nothing", ""),
        ('role="web"', "web-01,web-02,web-03"),
        ("* ! ( role=web , role=db )", "a b"),
        ("*^*", ""),
    ],
)
def test_a_selector_selects_hosts_sorted_by_name(text: str, found: str) -> None:
    assert ",".join(names(text)) == found


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("", 0, "a term"),
        ("  ", 2, "a term"),
        ("!a", 0, "a term before !, such as *"),
        ("a,!b", 2, "a term"),
        ("a b", 2, "an operator"),
        ("web-*", 4, "name~web-*"),
        ("a|b", 1, "a comma for a union"),
        ("a,", 2, "a term"),
        ("(a", 0, "a closing parenthesis"),
        ("a)", 1, "an opening parenthesis"),
        ("()", 1, "a term"),
        ("@", 1, "the name of a group"),
        ("role=", 5, "a value"),
        ("role=w*", 6, "key~web*"),
        ("role~", 5, "a value"),
        ('role~"w"', 5, "a value"),
        ("fact..x=1", 0, "a path of a fact"),
        ("a=1=2", 3, "an operator"),
        ("@nothing", 0, "a group, not @nothing: drained, ready, stale, web"),
        ("x[1-3", 1, "a closing bracket"),
    ],
)
def test_a_wrong_selector_says_where_and_what_fits(text: str, at: int, hint: str) -> None:
    with pytest.raises(BadSelector, match=re.escape(hint)) as caught:
        names(text)
    assert caught.value.at == at
    assert f"column {at + 1}" in str(caught.value)
    assert caught.value.http_status == 422


def test_sizes_are_bounded() -> None:
    deep = SELECTOR_DEPTH_MAX
    assert names("(" * deep + "db-1" + ")" * deep) == ["db-1"]
    assert names(",".join(["role=db"] * TESTS_MAX)) == ["db-1", "db-2"]
    for text in (
        "(" * (deep + 1) + "db-1" + ")" * (deep + 1),
        ",".join(["role=db"] * (TESTS_MAX + 1)),
        "a" * (SELECTOR_CHARS_MAX + 1),
        f"x[1-{NAMES_MAX}],y",
        "x[0-9999][0-9999][0-9999]",
    ):
        with pytest.raises(BadSelector, match="at most"):
            parse(text)


def test_a_long_chain_is_no_deep_tree() -> None:
    text = ",".join(["db-1"] * 10_000)
    assert names(text) == ["db-1"]


def test_names_without_a_host_are_all_named() -> None:
    with pytest.raises(UnknownHost, match="'db-9', 'old-1'") as caught:
        names("role=web,db-9!old-1")
    assert caught.value.names == ("db-9", "old-1")
    with pytest.raises(UnknownHost, match="and 990 more") as caught:
        names("no-[0001-1000]")
    assert len(caught.value.names) == HOSTS_NAMED_MAX


def test_an_empty_selection_is_an_error_for_a_job() -> None:
    with pytest.raises(EmptySelection, match="role=nothing"):
        selected(parse("role=nothing"), HOSTS, GROUPS)
    assert len(selected(parse("@web"), HOSTS, GROUPS)) == 3


def test_a_label_that_no_host_has_is_named_with_a_similar_one() -> None:
    hosts = [host("web-1", {"role": "web"}), host("db-1", {"role": "db"})]
    with pytest.raises(EmptySelection, match=r"no host has the label rol; did you mean role\\?"):
        selected(parse("rol=web"), hosts, {})
    with pytest.raises(EmptySelection, match=r"would do nothing$"):
        selected(parse("role=cache&fact.os=x&name~y*"), hosts, {})


def test_hosts_are_picked_by_name_or_id_and_count_once() -> None:
    found = pick(["web-02", "hst_db-1", "db-1", "web-02"], HOSTS)
    assert [each.name for each in found] == ["db-1", "web-02"]
    with pytest.raises(EmptySelection):
        pick([], HOSTS)
    with pytest.raises(UnknownHost) as caught:
        pick(["db-1", "no-such-host", "old-1"], HOSTS)
    assert caught.value.fields == [
        {"field": "hosts[1]", "message": "no host 'no-such-host'"},
        {"field": "hosts[2]", "message": "no host 'old-1'"},
    ]


def test_a_name_counts_before_the_id_of_another_host() -> None:
    hosts = [host("a"), host("hst_a")]
    assert [each.name for each in pick(["hst_a"], hosts)] == ["hst_a"]


def test_cycles_of_groups_are_refused() -> None:
    groups = {"a": parse("@b,web-01"), "b": parse("*!(@c)"), "c": parse("@a"), "d": parse("@d")}
    with pytest.raises(BadSelector, match="a -> b -> c -> a"):
        evaluate(parse("@a"), HOSTS, groups)
    with pytest.raises(BadSelector, match="b -> c -> a -> b"):
        check_groups({name: groups[name] for name in ("b", "c", "a")})
    with pytest.raises(BadSelector, match="d -> d"):
        check_groups({"d": groups["d"]})
    check_groups(GROUPS)


def test_levels_of_groups_are_bounded() -> None:
    groups = {"g0": parse("*")}
    groups |= {f"g{n}": parse(f"@g{n - 1}") for n in range(1, 100)}
    at_most = GROUP_DEPTH_MAX - 1
    assert evaluate(parse(f"@g{at_most}"), HOSTS, groups) == evaluate(parse("*"), HOSTS, {})
    with pytest.raises(BadSelector, match="at most"):
        evaluate(parse(f"@g{GROUP_DEPTH_MAX}"), HOSTS, groups)


def test_a_single_host_is_judged_without_the_others() -> None:
    assert matches(parse("web-01,no-such-host"), HOSTS[0], GROUPS)
    assert matches(parse("@ready"), HOSTS[0], GROUPS)
    assert not matches(parse("@ready"), HOSTS[2], GROUPS)


def test_a_selector_names_its_groups() -> None:
    assert parse("@a!(@b,x)").groups() == {"a", "b"}


# -- drawn selectors, against a meaning that is written down once more ---------------------------------

Drawn = tuple[str, frozenset[int]]
EVERY = frozenset(at for at, each in enumerate(HOSTS) if each.state is not HostState.GONE)


def having(key: str, value: str) -> frozenset[int]:
    return frozenset(at for at in EVERY if HOSTS[at].labels.get(key) == value)


leaves: st.SearchStrategy[Drawn] = st.one_of(
    st.just(("*", EVERY)),
    st.sampled_from(sorted(EVERY)).map(lambda at: (quoted(HOSTS[at].name), frozenset({at}))),
    st.sampled_from(["web", "db", "x"]).map(lambda v: (f"role={v}", having("role", v))),
    st.sampled_from(["prod", "dev"]).map(lambda v: (f"env!={v}", EVERY - having("env", v))),
    st.just(("@ready", having("role", "web") - {2})),
)
OPERATORS: dict[str, Callable[[frozenset[int], frozenset[int]], frozenset[int]]] = {
    ",": frozenset.union,
    "&": frozenset.intersection,
    "!": frozenset.difference,
    "^": frozenset.symmetric_difference,
}


@st.composite
def chains(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    text, found = draw(inner)
    for _ in range(draw(st.integers(0, 3))):
        operator = draw(st.sampled_from(sorted(OPERATORS)))
        blank = draw(st.sampled_from(["", " "]))
        more, hosts = draw(inner)
        text, found = f"{text}{blank}{operator}{blank}{more}", OPERATORS[operator](found, hosts)
    return f"({text})", found


@given(chains(st.recursive(leaves, chains, max_leaves=6)))
def test_operators_are_those_of_sets_from_left_to_right(drawn: Drawn) -> None:
    text, found = drawn
    assert names(text) == sorted(HOSTS[at].name for at in found)


@given(chains(st.recursive(leaves, chains, max_leaves=6)), st.sampled_from(sorted(EVERY)))
def test_one_host_is_judged_as_among_all(drawn: Drawn, at: int) -> None:
    text, found = drawn
    assert matches(parse(text), HOSTS[at], GROUPS) == (at in found)


@given(st.text(alphabet="ab1*?@()[]-,&!^=~\"'\\ .é", max_size=25))
def test_every_text_is_read_or_refused_at_one_of_its_characters(text: str) -> None:
    try:
        selector = parse(text)
    except BadSelector as error:
        wrong = error
    else:
        assert parse(selector.text) == selector
        return
    assert 0 <= wrong.at <= len(text)
    assert wrong.expected


@given(st.text(alphabet="ab*?.[", max_size=8), st.text(alphabet="ab.[\n", max_size=8))
def test_a_glob_has_stars_and_question_marks_only(glob: str, text: str) -> None:
    assert (glob_pattern(glob).fullmatch(text) is not None) == is_like(glob, text)


def is_like(glob: str, text: str) -> bool:
    if not glob:
        return not text
    if glob[0] == "*":
        return any(is_like(glob[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and glob[0] in ("?", text[0]) and is_like(glob[1:], text[1:])


def test_a_glob_with_many_stars_is_fast() -> None:
    assert glob_pattern("*a" * 200 + "b").fullmatch("a" * 2_000) is None


def test_facts_that_were_not_read_fail_instead_of_not_matching() -> None:
    """A rule about facts would not count for hosts that were listed without their facts."""
    unread = [replace(HOSTS[0], facts_json=UNREAD)]
    with pytest.raises(RuntimeError, match="were not read"):
        evaluate(parse("fact.os!=linux"), unread, {})
    assert evaluate(parse("*"), unread, {}) == unread
