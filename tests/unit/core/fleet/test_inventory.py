"""Lists of hosts to import: every line becomes hosts or a problem with its number."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from holdfast.core import codec
from holdfast.core.fleet.hosts import ansible, listing
from holdfast.core.fleet.hosts.entry import HostEntry, check_entry
from holdfast.core.fleet.hosts.inventory import InventoryFormat, read_inventory
from holdfast.core.fleet.hosts.listing import Inventory, LineProblem, Lister
from holdfast.core.fleet.hosts.names import unfold
from holdfast.core.fleet.hosts.selector import parse
from holdfast.errors import InvalidInput


def named(inventory: Inventory) -> dict[str, HostEntry]:
    return {entry.name: entry for entry in inventory.entries}


def problems(inventory: Inventory) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in inventory.problems]


def labels(text: str, host: str, format: str = "ansible") -> dict[str, str] | None:
    found = read_inventory(text, format)
    assert found.problems == ()
    return named(found)[host].labels


def test_json_lines() -> None:
    found = read_inventory(
        '{"name": "a", "labels": {"role": "web"}, "address": "10.0.0.1"}\n'
        "\n"
        '{"name": "b", "driver": "ssh"}\r\n'
        '{"name": "c"\n'
        '{"name": "d", "colour": 1}\n'
        '{"name": "b"}\n'
        '{"name": "@e"}\n'
        '{"name": "f", "labels": {"state": "x"}}\n',
        "jsonl",
    )
    assert found.entries == (
        HostEntry(name="a", labels={"role": "web"}, address="10.0.0.1"),
        HostEntry(name="b", driver="ssh"),
    )
    assert [line for line, _ in problems(found)] == [4, 5, 6, 7, 8]
    assert "colour" in found.problems[1].message
    assert found.problems[2] == LineProblem(6, "host 'b' is on line 3 already")


def test_plain_text() -> None:
    found = read_inventory(
        "# the web\n"
        "web-[01-03] role=web env='a b' # three of them\n"
        '"odd host" address=10.0.0.9 driver=ssh note="x #1" # don\'t\n'
        "  db-1\n"
        "db-2 role\n"
        "db-3 role=web | cat\n"
        "db-4, role=web\n"
        "web-02\n"
        "db-5 state=gone\n"
        "x[1-60000]\n",
        "text",
    )
    assert list(named(found)) == ["web-01", "web-02", "web-03", "odd host", "db-1"]
    assert named(found)["web-02"].labels == {"role": "web", "env": "a b"}
    assert named(found)["odd host"] == HostEntry(
        name="odd host", address="10.0.0.9", driver="ssh", labels={"note": "x #1"}
    )
    assert [line for line, _ in problems(found)] == [5, 6, 7, 8, 9, 10]


INI = """
mail.example.com ansible_host=10.0.0.5 ansible_user=ops ansible_port=2222
; a comment
[web]
web[01:03].example.com http_port=80
web02.example.com http_port=8080 ansible_connection=ssh   # wins

[db]
db-[a:c]
[db:vars]
engine = "postgres"
env=stage

[europe:children]
web
db
[europe:vars]
env=prod
region=eu

[all:vars]
owner=ann
region=world
"""


def test_an_inventory_of_ansible() -> None:
    found = read_inventory(INI, "ansible")
    assert found.problems == ()
    hosts = named(found)
    assert hosts["mail.example.com"] == HostEntry(
        name="mail.example.com",
        address="ops@10.0.0.5:2222",
        labels={"owner": "ann", "region": "world"},
    )
    assert hosts["web02.example.com"] == HostEntry(
        name="web02.example.com",
        driver="ssh",
        labels={"owner": "ann", "region": "eu", "env": "prod", "http_port": "8080"},
    )
    assert hosts["db-b"].labels == {
        "owner": "ann",
        "region": "eu",
        "env": "stage",
        "engine": "postgres",
    }
    assert found.groups == {
        "web": "web[01-03].example.com",
        "db": "db-a,db-b,db-c",
        "europe": "db-a,db-b,db-c,web[01-03].example.com",
    }
    for selector in found.groups.values():
        assert parse(selector).names() <= set(hosts)


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("a ansible_host=h", "h"),
        ("a ansible_ssh_host=h ansible_ssh_user=u ansible_ssh_port=1", "u@h:1"),
        ("a:99 ansible_host=h", "h:99"),
        ("a ansible_host=::1", "::1"),
        ("a ansible_host=::1 ansible_port=22", "[::1]:22"),
        ("a ansible_port=22", None),
    ],
)
def test_the_address_of_ansible(line: str, address: str | None) -> None:
    assert named(read_inventory(line, "ansible"))["a"].address == address


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("n[1:3]", ["n1", "n2", "n3"]),
        ("n[08:10]", ["n08", "n09", "n10"]),
        ("n[1:9:4]", ["n1", "n5", "n9"]),
        ("[a:c]x", ["ax", "bx", "cx"]),
        ("r[1:2]-n[1:2]", ["r1-n1", "r1-n2", "r2-n1", "r2-n2"]),
        ("n[1:2]:2222", ["n1", "n2"]),
    ],
)
def test_ranges_of_ansible(pattern: str, names: list[str]) -> None:
    found = read_inventory(pattern, "ansible")
    assert found.problems == ()
    assert list(named(found)) == names


@given(st.integers(0, 200), st.integers(0, 60), st.integers(1, 5), st.booleans())
def test_a_range_of_ansible_is_that_of_folded_names(
    first: int, more: int, step: int, padded: bool
) -> None:
    width = 4 if padded else 1
    low, high = f"{first:0{width}d}", f"{first + more:0{width}d}"
    found = read_inventory(f"n[{low}:{high}:{step}]", "ansible")
    assert list(named(found)) == unfold(f"n[{low}-{high}/{step}]")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[web]\na 'b", 2, "closing"),
        ("a b", 1, "'b' is no variable"),
        ("[web:vars]\nx", 2, "'x' is no variable"),
        ("[web:stuff]\na", 1, "[web:stuff] is not known"),
        ("[web:stuff]\na", 2, "the line is left out"),
        ("[web:children]\nnone", 2, "group 'none' is not defined"),
        ("n[3:1]", 1, "must have 1 to"),
        ("n[08:100]", 1, "different lengths"),
        ("n[1:3:0]", 1, "a step of 0"),
        ("n[c:a]", 1, "no letters"),
        ("n[a:Z]", 1, "no letters"),
        ("n[1:999999999]", 1, "50000 numbers"),
        ("n[1:900][1:900]", 1, "more than 50000 hosts"),
        ("a x={{y}}", 1, "is a template"),
        ("a state=up", 1, "variable 'state' of host 'a' is left out"),
        ("@a", 1, "name '@a'"),
        ("[a b]\nx", 1, "no name of a group"),
        ("[a:children]\nb\n[b:children]\na", 1, "group 'a' is in a cycle"),
    ],
)
def test_a_wrong_line_of_ansible_is_a_problem(text: str, line: int, message: str) -> None:
    found = read_inventory(f"{text}\n[fine]\nok\n", "ansible")
    assert (line, True) in [(at, message in text) for at, text in problems(found)], found.problems
    assert "ok" in named(found)


def test_a_variable_that_is_no_label_is_one_problem_whatever_the_number_of_hosts() -> None:
    """An inventory may have a thousand hosts in a group whose variables are templates."""
    found = read_inventory("[web]\nw[001:900] own={{y}}\n[web:vars]\nall={{x}}\n", "ansible")
    assert problems(found) == [
        (2, "variable 'all' of host 'w001' and 899 more hosts is a template: it is left out"),
        (2, "variable 'own' of host 'w001' and 899 more hosts is a template: it is left out"),
    ]
    assert (len(named(found)), found.more_problems) == (900, 0)


def test_an_object_of_another_type_says_how_one_is_written() -> None:
    found = read_inventory('{"name": "a", "labels": {"rack": 7}}', "jsonl")
    [(line, text)] = problems(found)
    assert (line, text[-54:]) == (1, 'write e.g. {"name": "web-01", "labels": {"rack": "7"}}')


def test_the_list_of_ansible() -> None:
    document = {
        "_meta": {
            "hostvars": {
                "a": {
                    "role": "web",
                    "port": 80,
                    "up": True,
                    "ips": ["x"],
                    "ansible_host": "10.0.0.1",
                }
            }
        },
        "all": {"children": ["ungrouped", "web", "empty"]},
        "web": {"hosts": ["a", "b"]},
    }
    found = read_inventory(codec.dumps(document), "ansible-json")
    assert found.problems == ()
    assert named(found) == {
        "a": HostEntry(
            name="a", address="10.0.0.1", labels={"role": "web", "port": "80", "up": "true"}
        ),
        "b": HostEntry(name="b", labels={}),
    }
    assert found.groups == {"web": "a,b"}


@pytest.mark.parametrize("text", ["", "[]", '{"web": 5}', '{"web": {"hosts": 5}}', "{"])
def test_a_wrong_list_of_ansible_is_one_problem(text: str) -> None:
    found = read_inventory(text, "ansible-json")
    assert (found.entries, len(found.problems)) == ((), 1)
    assert "ansible-inventory --list" in found.problems[0].message


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = read_inventory("x y\n" * (listing.PROBLEMS_MAX + 5), "text")
    assert (len(many.problems), many.more_problems) == (listing.PROBLEMS_MAX, 5)
    with pytest.raises(InvalidInput, match="characters"):
        read_inventory("x" * (listing.TEXT_CHARS_MAX + 1), "text")
    groups = "".join(f"[g{n}]\n" for n in range(ansible.GROUPS_MAX))
    assert "groups" in read_inventory(groups, "ansible").problems[0].message
    monkeypatch.setattr(Lister, "ENTRIES_MAX", 3)
    full = read_inventory("\n".join(f"h{n}" for n in range(9)), "text")
    assert problems(full) == [(4, "the list has more than 3 hosts: the rest is left out")]
    assert len(full.entries) == 3
    monkeypatch.setattr(ansible, "MEMBERS_MAX", 5)
    nested = read_inventory("[a]\nh[1:3]\n[b:children]\na\n", "ansible")
    assert (nested.entries, len(nested.problems)) == ((), 1)


@pytest.mark.parametrize("format", ["yaml", "yml"])
def test_yaml_is_left_to_ansible(format: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape("ansible-inventory -i FILE --list")):
        read_inventory("all:\n", format)
    with pytest.raises(InvalidInput, match="jsonl, text, ansible, ansible-json"):
        read_inventory("", "csv")


@given(
    st.sampled_from(list(InventoryFormat)),
    st.text(alphabet="ab1[]:=-{}\"'# \n,;\\@\t\x00é", max_size=80),
)
def test_every_text_gives_valid_hosts_and_numbered_problems(
    format: InventoryFormat, text: str
) -> None:
    found = read_inventory(text, format.value)
    for entry in found.entries:
        check_entry(entry)
    assert len({entry.name for entry in found.entries}) == len(found.entries)
    assert all(0 <= problem.line <= text.count("\n") + 1 for problem in found.problems)
    assert all(problem.message.isprintable() for problem in found.problems)
    for selector in found.groups.values():
        assert parse(selector).names() <= {entry.name for entry in found.entries}


sections = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "all"]),
        st.sampled_from(["", ":children", ":vars"]),
        st.lists(st.sampled_from(["a", "b", "h1", "h2 x=1", "x=2", "y=3", "h[1:3]"]), max_size=3),
    ),
    max_size=6,
)


@given(sections)
def test_drawn_inventories_of_ansible_end(drawn: list[tuple[str, str, list[str]]]) -> None:
    text = "\n".join(f"[{name}{kind}]\n" + "\n".join(lines) for name, kind, lines in drawn)
    found = read_inventory(text, "ansible")
    for entry in found.entries:
        check_entry(entry)


def test_too_many_groups_are_refused_whole() -> None:
    """Groups below each other: the names of children come before their own sections."""
    text = "\n".join(f"[g{n}:children]\ng{n + 1}" for n in range(ansible.GROUPS_MAX + 20))
    found = read_inventory(text, "ansible")
    assert (found.entries, found.groups) == ((), {})
    assert "more than 1000 groups: nothing is read" in found.problems[-1].message


def test_a_long_line_is_left_out() -> None:
    found = read_inventory(f"web-1 x={'a' * ansible.LINE_CHARS_MAX}\nweb-2", "ansible")
    assert [entry.name for entry in found.entries] == ["web-2"]
    assert "more than 8192 characters" in found.problems[0].message
