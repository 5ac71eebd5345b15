"""Roles and operations: every cell of the table, and the rules around it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from holdfast.core.access import (
    ALL_PROJECTS,
    Allowed,
    DenialReason,
    Denied,
    Principal,
    home_project,
    judge,
    named_node,
)
from holdfast.core.rights import (
    ORDER,
    RIGHTS,
    ROLES_OF,
    TABLE,
    Operation,
    PrincipalKind,
    Right,
    Role,
)

# The page, typed apart from the code: V viewer, O operator, A approver, D admin, W worker, G agent, J join
# token, H webhook source. `●` in its projects, `own` its own node's, `as` as a node.
PAGE = """
    tasks.read output.read events.read stats.read                     ● ● ● ● ● – – –
    tasks.submit tasks.edit tasks.copy                                – ● – ● ● – – –
    tasks.intervene                                                   – ● – ● – – – –
    tasks.force                                                       – – – ● – – – –
    queues.read                                                       ● ● ● ● ● – – –
    queues.pause types.weigh                                          – ● – ● – – – –
    dead.replay dead.discard operations.run                           – ● – ● – – – –
    nodes.read                                                        ● ● ● ● own – – –
    nodes.manage                                                      – ● – ● – – – –
    nodes.register                                                    – – – ● own – ● –
    nodes.act_as                                                      – – – ● – – – –
    sync.exchange sync.run                                            – – – as own – – –
    sync.status sync.log conflicts.read                               ● ● ● ● ● – – –
    sync.repair conflicts.settle                                      – ● – ● – – – –
    locks.read                                                        ● ● ● ● ● – – –
    locks.revoke                                                      – ● – ● – – – –
    schedules.read                                                    ● ● ● ● ● – – –
    schedules.write                                                   – ● – ● – – – –
    decisions.read                                                    ● ● ● ● own – – –
    decisions.decide                                                  – – ● ● – – – –
    jobs.read hosts.read blocks.read                                  ● ● ● ● – own – –
    jobs.create                                                       – ● – ● – – – ●
    jobs.control                                                      – ● – ● – – – –
    jobs.approve                                                      – – ● ● – – – –
    jobs.break_glass                                                  – – – ● – – – –
    hosts.write blocks.write                                          – ● – ● – – – –
    agents.sync                                                       – – – – – ● – –
    agents.enrol                                                      – – – – – – ● –
    tokens.manage projects.manage webhooks.manage audit.read          – – – ● – – – –
    presets.read                                                      ● ● ● ● – – – –
    presets.write                                                     – ● – ● – – – –
"""  # noqa: RUF001
ROLES = {"V": Role.VIEWER, "O": Role.OPERATOR, "A": Role.APPROVER, "D": Role.ADMIN,
         "W": Role.WORKER, "G": Role.AGENT, "J": Role.JOIN, "H": Role.WEBHOOK}  # fmt: skip
CELLS = {"●": Right.ALLOWED, "own": Right.OWN, "as": Right.AS_NODE, "–": Right.DENIED}  # noqa: RUF001
KINDS = {role: kind for kind, roles in ROLES_OF.items() for role in roles}


def page() -> dict[tuple[Operation, Role], Right]:
    cells = {}
    for line in PAGE.strip().splitlines():
        words = line.split()
        names, marks = words[:-8], words[-8:]
        for name, (role, mark) in itertools.product(names, zip(ROLES.values(), marks, strict=True)):
            cells[Operation(name), role] = CELLS[mark]
    return cells


def principal(
    *roles: Role,
    kind: PrincipalKind | None = None,
    projects: tuple[str, ...] = ("default",),
    scopes: frozenset[Operation] | None = None,
    node: str | None = None,
) -> Principal:
    kind = kind or (KINDS[roles[0]] if roles else PrincipalKind.USER)
    return Principal(f"{kind}:p", kind, frozenset(roles), frozenset(projects), scopes, node)


def is_allowed(
    who: Principal, operation: Operation, owner: str | None, project: str = "default"
) -> bool:
    answer = judge(who, operation, project=project, owner_node=owner, requester="user:other")
    return isinstance(answer, Allowed)


ADMIN = principal(Role.ADMIN)
APPROVER = principal(Role.APPROVER)
WORKER = principal(Role.WORKER, node="n-own")


def test_the_table_is_the_page() -> None:
    assert page() == {(operation, role): right for (role, operation), right in RIGHTS.items()}
    assert len(TABLE) == len(Operation)
    assert set(ORDER) == set(Role)


@pytest.mark.parametrize("owner", [None, "n-own", "n-other"])
def test_judge_follows_every_cell(owner: str | None) -> None:
    """Each operation and role, for an object without a node, of the own node, of another node."""
    expected = {
        Right.ALLOWED: True,
        Right.OWN: owner == "n-own",
        Right.AS_NODE: owner is not None,
        Right.DENIED: False,
    }
    for (operation, role), right in page().items():
        who = principal(role, node="n-own" if role in (Role.WORKER, Role.AGENT) else None)
        assert is_allowed(who, operation, owner) is expected[right], (operation, role)
        assert not is_allowed(who, operation, owner, project="other"), (operation, role)


def test_no_role_no_right() -> None:
    for operation in Operation:
        answer = judge(
            principal(), operation, project="default", owner_node="n", requester="user:x"
        )
        assert isinstance(answer, Denied)
        assert answer.reason is DenialReason.ROLE
        assert answer.code == "forbidden"


def test_a_denial_names_the_roles_that_would_allow_it() -> None:
    answer = judge(principal(Role.OPERATOR), Operation.DECISIONS_DECIDE, project="default")
    assert isinstance(answer, Denied)
    assert "(its roles: operator); the roles that do: approver, admin" in answer.message


operations = st.sampled_from(Operation)
principals = st.builds(
    Principal,
    name=st.sampled_from(["user:ann", "user:bob", "node:n1"]),
    kind=st.sampled_from(PrincipalKind),
    roles=st.frozensets(st.sampled_from(Role)),
    projects=st.frozensets(st.sampled_from(["default", "a", "b", ALL_PROJECTS])),
    scopes=st.none() | st.frozensets(operations),
    node=st.none() | st.sampled_from(["n1", "n2"]),
)
owners = st.none() | st.sampled_from(["n1", "n2"])
projects = st.sampled_from(["default", "a", "b", ALL_PROJECTS])
requesters = st.none() | st.sampled_from(["user:ann", "user:bob"])


@given(principals, operations, projects, owners, requesters)
def test_what_is_allowed_has_a_reason(
    who: Principal, operation: Operation, project: str, owner: str | None, requester: str | None
) -> None:
    """Read backwards: an allowed request has the role, the scope, the project and no self-approval."""
    answer = judge(who, operation, project=project, owner_node=owner, requester=requester)
    if isinstance(answer, Denied):
        assert who.name in answer.message
        return
    rights = {RIGHTS[role, operation] for role in who.roles if KINDS[role] is who.kind}
    assert rights - {Right.DENIED}
    assert who.scopes is None or operation in who.scopes
    assert ALL_PROJECTS in who.projects or project in who.projects
    if operation in (Operation.JOBS_APPROVE, Operation.DECISIONS_DECIDE):
        assert requester != who.name
    if operation is Operation.JOBS_APPROVE:
        assert requester is not None
    if Right.ALLOWED not in rights:
        assert owner is not None
        assert answer.node == owner
        assert owner == who.node or Role.ADMIN in who.roles


@given(principals, operations, projects, owners, requesters)
def test_scopes_and_fewer_roles_only_narrow(
    who: Principal, operation: Operation, project: str, owner: str | None, requester: str | None
) -> None:
    def allows(each: Principal) -> bool:
        answer = judge(each, operation, project=project, owner_node=owner, requester=requester)
        return isinstance(answer, Allowed)

    wider = Principal(who.name, who.kind, frozenset(Role), who.projects, None, who.node)
    assert allows(wider) or not allows(who)


def test_a_foreign_object_is_not_found() -> None:
    answer = judge(ADMIN, Operation.TASKS_READ, project="other")
    assert isinstance(answer, Denied)
    assert answer.reason is DenialReason.PROJECT
    assert answer.code == "not-found"


def test_the_whole_store_needs_all_projects() -> None:
    some = principal(Role.VIEWER, projects=("default", "a"))
    every = principal(Role.VIEWER, projects=(ALL_PROJECTS,))
    assert isinstance(judge(some, Operation.EVENTS_READ, project=ALL_PROJECTS), Denied)
    assert isinstance(judge(every, Operation.EVENTS_READ, project=ALL_PROJECTS), Allowed)
    assert isinstance(judge(every, Operation.EVENTS_READ, project="a"), Allowed)


@pytest.mark.parametrize("who", [ADMIN, APPROVER])
def test_a_requester_does_not_approve(who: Principal) -> None:
    for operation in (Operation.JOBS_APPROVE, Operation.DECISIONS_DECIDE):
        for requester in (who.name, frozenset({"user:x", who.name})):
            answer = judge(who, operation, project="default", requester=requester)
            assert isinstance(answer, Denied)
            assert answer.reason is DenialReason.SELF_APPROVAL
            assert answer.code == "self-approval"
        assert isinstance(judge(who, operation, project="default", requester="user:x"), Allowed)


def test_an_approval_without_a_known_requester_is_denied() -> None:
    for requester in (None, "", frozenset[str]()):
        answer = judge(APPROVER, Operation.JOBS_APPROVE, project="default", requester=requester)
        assert isinstance(answer, Denied)
        assert answer.reason is DenialReason.REQUESTER_UNKNOWN
    assert isinstance(judge(APPROVER, Operation.DECISIONS_DECIDE, project="default"), Allowed)


def test_an_admin_speaks_for_a_node() -> None:
    answer = judge(ADMIN, Operation.SYNC_RUN, project="default", owner_node="plugin-a")
    assert answer == Allowed("user:p as plugin-a", "plugin-a")
    unnamed = judge(ADMIN, Operation.SYNC_RUN, project="default")
    assert isinstance(unnamed, Denied)
    assert unnamed.reason is DenialReason.NODE_NEEDED
    scoped = principal(Role.ADMIN, scopes=frozenset({Operation.SYNC_RUN}))
    narrowed = judge(scoped, Operation.SYNC_RUN, project="default", owner_node="plugin-a")
    assert isinstance(narrowed, Denied)
    assert narrowed.reason is DenialReason.SCOPE


def test_the_node_in_a_body_is_the_credentials() -> None:
    assert named_node(WORKER, None, project="default") == Allowed("node:p", "n-own")
    assert named_node(WORKER, "n-own", project="default") == Allowed("node:p", "n-own")
    foreign = named_node(WORKER, "n-other", project="default")
    assert isinstance(foreign, Denied)
    assert (foreign.reason, foreign.code) == (DenialReason.NOT_OWN, "forbidden")
    assert named_node(ADMIN, "n-other", project="default") == Allowed(
        "user:p as n-other", "n-other"
    )
    elsewhere = named_node(ADMIN, "n-other", project="other")
    assert isinstance(elsewhere, Denied)
    assert elsewhere.code == "not-found"


def test_a_role_counts_for_its_kind_of_credential_only() -> None:
    node = principal(Role.ADMIN, kind=PrincipalKind.NODE, node="n")
    user = principal(Role.WORKER, kind=PrincipalKind.USER, node="n")
    assert isinstance(judge(node, Operation.TASKS_FORCE, project="default"), Denied)
    assert isinstance(judge(user, Operation.SYNC_RUN, project="default", owner_node="n"), Denied)


@pytest.mark.parametrize(
    ("projects", "home"),
    [
        (set(), "default"),
        ({ALL_PROJECTS}, "default"),
        ({"web", "default"}, "default"),
        ({"web", "app"}, "app"),
        ({"web", ALL_PROJECTS}, "default"),
    ],
)
def test_the_home_project_is_the_default_one_if_the_principal_is_a_member(
    projects: set[str], home: str
) -> None:
    principal = Principal("user:a", PrincipalKind.USER, frozenset(), frozenset(projects))
    assert home_project(principal) == home
