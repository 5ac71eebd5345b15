"""Channels: names and access."""

import pytest

from holdfast.core.access import Allowed, Denied, Principal, visible_projects
from holdfast.core.channel import (
    ChannelObject,
    may_subscribe,
    parse_channel,
    topics_for,
)
from holdfast.core.rights import Operation, PrincipalKind, Role
from holdfast.errors import InvalidInput


def person(
    name: str, role: Role, *projects: str, scopes: frozenset[Operation] | None = None
) -> Principal:
    return Principal(
        f"user:{name}", PrincipalKind.USER, frozenset({role}), frozenset(projects), scopes
    )


VIEWER = person("ann", Role.VIEWER, "web")
EVERYWHERE = person("eve", Role.VIEWER, "all")
ADMIN = person("root", Role.ADMIN, "all")
WORKER = Principal(
    "node:n1", PrincipalKind.NODE, frozenset({Role.WORKER}), frozenset({"web"}), None, "n1"
)
AGENT = Principal(
    "agent:h1", PrincipalKind.AGENT, frozenset({Role.AGENT}), frozenset({"web"}), None, "h1"
)
NO_EVENTS = person("bob", Role.VIEWER, "web", scopes=frozenset({Operation.TASKS_READ}))


def answer(principal: Principal, channel: str, project: str) -> str:
    parsed = parse_channel(channel)
    verdict = may_subscribe(principal, parsed, ChannelObject(project, parsed.topic))
    return "yes" if isinstance(verdict, Allowed) else verdict.code


@pytest.mark.parametrize(
    ("principal", "channel", "project", "expected"),
    [
        (VIEWER, "task:t1", "web", "yes"),
        (VIEWER, "task:t1", "other", "not-found"),
        (VIEWER, "project:web", "web", "yes"),
        (VIEWER, "project:other", "other", "not-found"),
        (VIEWER, "project:all", "all", "not-found"),
        (EVERYWHERE, "project:all", "all", "yes"),
        (VIEWER, "system:events", "all", "not-found"),
        (EVERYWHERE, "system:events", "all", "yes"),
        (VIEWER, "queue:mail", "all", "yes"),
        (AGENT, "queue:mail", "all", "forbidden"),
        (VIEWER, "user:ann", "all", "yes"),
        (VIEWER, "user:eve", "all", "forbidden"),
        (ADMIN, "user:eve", "all", "yes"),
        (VIEWER, "node:n1", "web", "yes"),
        (VIEWER, "worker:n1", "web", "yes"),
        (WORKER, "worker:n1", "web", "yes"),
        (WORKER, "worker:n2", "web", "forbidden"),
        (WORKER, "task:t1", "web", "yes"),
        (VIEWER, "job:j1", "web", "yes"),
        (WORKER, "job:j1", "web", "forbidden"),
        (AGENT, "task:t1", "web", "forbidden"),
        (NO_EVENTS, "task:t1", "web", "forbidden"),
    ],
)
def test_who_may_subscribe(principal: Principal, channel: str, project: str, expected: str) -> None:
    assert answer(principal, channel, project) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "task",
        "task:",
        ":t1",
        "system:admin",
        "system:other",
        "moon:1",
        7,
        None,
        "task:!x",
        "TASK:a",
    ],
)
def test_what_is_not_a_channel(text: object) -> None:
    with pytest.raises(InvalidInput):
        parse_channel(text)


def test_a_worker_is_a_node() -> None:
    assert parse_channel("worker:n1") == parse_channel("node:n1")


def test_an_id_may_have_colons() -> None:
    assert parse_channel("task:a:b").name == "a:b"


def test_only_an_administrator_gets_events_about_credentials() -> None:
    system = ChannelObject("all", "system:events")
    assert topics_for(EVERYWHERE, system) == {"system:events"}
    assert topics_for(ADMIN, system) == {"system:events", "system:admin"}


def test_visible_projects() -> None:
    assert visible_projects(ADMIN) is None
    assert visible_projects(VIEWER) == frozenset({"web"})


def test_a_principal_without_projects_reads_nothing() -> None:
    nowhere = person("nix", Role.ADMIN)
    for channel in ("task:t1", "queue:mail", "user:nix", "system:events", "project:web"):
        parsed = parse_channel(channel)
        verdict = may_subscribe(nowhere, parsed, ChannelObject("web", parsed.topic))
        assert isinstance(verdict, Denied), channel
