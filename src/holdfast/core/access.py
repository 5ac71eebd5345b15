"""Who may do what: the judgement of one request.

Promises: what the table of `rights.py` does not allow is denied; scopes only narrow; a principal acts only in
its projects; a requester does not approve its own request. Every transport asks `judge`, none decides.
Never: reads a credential or a store. The gateway makes the `Principal` from the row of the token, and passes
the project and the owner of the object itself, not those of the path.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from holdfast.core.errors import Forbidden, NodeFenced, SelfApproval
from holdfast.core.rights import (
    ORDER,
    RIGHTS,
    ROLES_OF,
    Operation,
    PrincipalKind,
    Right,
    Role,
)
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import HoldfastError

ALL_PROJECTS: Final = "all"
"""As a project of a principal: every project. As the project of a request: the store as a whole."""


class Principal(msgspec.Struct, frozen=True):
    """The identity behind a credential."""

    name: str
    """`user:NAME`, `node:ID`, `agent:HOST`, `webhook:SOURCE`."""
    kind: PrincipalKind
    roles: frozenset[Role]
    projects: frozenset[str]
    scopes: frozenset[Operation] | None = None
    """The operations that the token is limited to. None: all that its roles allow."""
    node: str | None = None
    """The node that the credential is bound to."""
    is_quarantined: bool = False
    """Whether that node is quarantined. It then reads its own state and does nothing else."""


class DenialReason(StrEnum):
    """Why a request is denied."""

    ROLE = "role"
    SCOPE = "scope"
    PROJECT = "project"
    NOT_OWN = "not-own"
    NODE_NEEDED = "node-needed"
    QUARANTINED = "quarantined"
    REQUESTER_UNKNOWN = "requester-unknown"
    SELF_APPROVAL = "self-approval"


_CODES: Final = {
    DenialReason.PROJECT: "not-found",
    DenialReason.QUARANTINED: "node-fenced",
    DenialReason.SELF_APPROVAL: "self-approval",
}
_ERRORS: Final[dict[DenialReason, type[HoldfastError]]] = {
    DenialReason.QUARANTINED: NodeFenced,
    DenialReason.SELF_APPROVAL: SelfApproval,
}
_TEXTS: Final = {
    DenialReason.ROLE: "no role of it allows this",
    DenialReason.SCOPE: "the scopes of its token leave this out",
    DenialReason.PROJECT: "it has no access to the project",
    DenialReason.NOT_OWN: "it may do this for its own node only",
    DenialReason.NODE_NEEDED: "it may do this in the name of a node only: name the node",
    DenialReason.QUARANTINED: "its node is quarantined: an operator has to admit it again",
    DenialReason.REQUESTER_UNKNOWN: "the requester is not known",
    DenialReason.SELF_APPROVAL: "a requester does not approve its own request",
}


class Allowed(msgspec.Struct, frozen=True):
    """The request may go on."""

    actor: str
    """What the audit and the events name: the principal, or `user:ann as plugin-a`."""
    node: str | None = None
    """The node that the request speaks for."""


class Denied(msgspec.Struct, frozen=True):
    """The request changes nothing."""

    reason: DenialReason
    message: str

    @property
    def code(self) -> str:
        """The code of the error. An object of a foreign project is not found: the answer is that of an object
        that does not exist, and the message stays in the log."""
        return _CODES.get(self.reason, "forbidden")

    def error(self) -> HoldfastError:
        """The error that every transport answers with. Not that of a foreign project, which the caller
        answers like an object that does not exist."""
        return _ERRORS.get(self.reason, Forbidden)(self.message)


Verdict: TypeAlias = Allowed | Denied


def judge(
    principal: Principal,
    operation: Operation,
    *,
    project: str,
    owner_node: str | None = None,
    requester: str | frozenset[str] | None = None,
) -> Verdict:
    """Whether the principal may do the operation on an object of the project.

    `owner_node` is the node that the object belongs to, or that the request speaks for. `requester` is who
    asked for what is approved; several for a job that was edited. It is needed for `jobs.approve`, and given
    for `decisions.decide` when the task asks for four eyes."""
    rights = _rights(principal, operation)
    if not rights:
        return _denied(principal, operation, _why_no_right(principal, operation))
    if principal.is_quarantined and operation is not Operation.NODES_READ:
        return _denied(principal, operation, DenialReason.QUARANTINED)
    if not _is_member(principal, project):
        return _denied(principal, operation, DenialReason.PROJECT)
    answer = _by_owner(principal, operation, rights, owner_node)
    if isinstance(answer, Allowed) and operation in APPROVALS:
        refused = _refused_approval(principal, operation, requester)
        return answer if refused is None else _denied(principal, operation, refused)
    return answer


def named_node(principal: Principal, node: str | None, *, project: str) -> Verdict:
    """The node that a request speaks for, when its body names one: the credential's node, or any node for a
    principal that may do `nodes.act_as`. Whether that node is registered is for the caller to look up."""
    if node is None or node == principal.node:
        return Allowed(principal.name, principal.node)
    answer = judge(principal, Operation.NODES_ACT_AS, project=project)
    if isinstance(answer, Allowed):
        return _acting_as(principal, node)
    if answer.reason is DenialReason.PROJECT:
        return answer
    return _denied(principal, Operation.NODES_ACT_AS, DenialReason.NOT_OWN)


APPROVALS: Final = frozenset({Operation.JOBS_APPROVE, Operation.DECISIONS_DECIDE})
"""Operations that a requester is excluded from, in whatever role."""


def operations_of(principal: Principal) -> dict[Operation, Right]:
    """The operations that the principal may use in its projects, each with the widest of its rights."""
    order = (Right.ALLOWED, Right.AS_NODE, Right.OWN)
    allowed = {}
    for operation in Operation:
        rights = _rights(principal, operation)
        if rights:
            allowed[operation] = next(right for right in order if right in rights)
    return allowed


def _rights(principal: Principal, operation: Operation) -> frozenset[Right]:
    """What the roles of the principal allow together."""
    if principal.scopes is not None and operation not in principal.scopes:
        return frozenset()
    roles = principal.roles & ROLES_OF[principal.kind]
    return frozenset(RIGHTS[role, operation] for role in roles) - {Right.DENIED}


def _why_no_right(principal: Principal, operation: Operation) -> DenialReason:
    without_scopes = msgspec.structs.replace(principal, scopes=None)
    return DenialReason.SCOPE if _rights(without_scopes, operation) else DenialReason.ROLE


def _is_member(principal: Principal, project: str) -> bool:
    return ALL_PROJECTS in principal.projects or project in principal.projects


def home_project(principal: Principal) -> str:
    """The project of a request that names none, and of the tasks that a worker runs: the default one if the
    principal is a member of it, else its first."""
    if _is_member(principal, DEFAULT_PROJECT):
        return DEFAULT_PROJECT
    return min(principal.projects, default=DEFAULT_PROJECT)


def visible_projects(principal: Principal) -> frozenset[str] | None:
    """The projects that lists and events are limited to. None: all."""
    return None if ALL_PROJECTS in principal.projects else principal.projects


def _by_owner(
    principal: Principal, operation: Operation, rights: frozenset[Right], owner_node: str | None
) -> Verdict:
    if Right.ALLOWED in rights:
        return Allowed(principal.name, principal.node)
    if Right.OWN in rights and owner_node is not None and owner_node == principal.node:
        return Allowed(principal.name, principal.node)
    if Right.AS_NODE in rights:
        if owner_node is None:
            return _denied(principal, operation, DenialReason.NODE_NEEDED)
        if Right.ALLOWED in _rights(principal, Operation.NODES_ACT_AS):
            return _acting_as(principal, owner_node)
        return _denied(principal, operation, _why_no_right(principal, Operation.NODES_ACT_AS))
    return _denied(principal, operation, DenialReason.NOT_OWN)


def _refused_approval(
    principal: Principal, operation: Operation, requester: str | frozenset[str] | None
) -> DenialReason | None:
    if requester is None or not requester:
        needed = operation is Operation.JOBS_APPROVE
        return DenialReason.REQUESTER_UNKNOWN if needed else None
    requesters = {requester} if isinstance(requester, str) else requester
    return DenialReason.SELF_APPROVAL if principal.name in requesters else None


def _acting_as(principal: Principal, node: str) -> Allowed:
    return Allowed(f"{principal.name} as {node}", node)


def roles_for(operation: Operation) -> tuple[Role, ...]:
    """The roles that allow the operation, in the order of the table."""
    return tuple(role for role in ORDER if RIGHTS[role, operation] is not Right.DENIED)


def _denied(principal: Principal, operation: Operation, reason: DenialReason) -> Denied:
    text = _TEXTS[reason]
    if reason is DenialReason.ROLE:
        own = ", ".join(sorted(principal.roles & ROLES_OF[principal.kind])) or "none"
        roles = roles_for(operation)
        text += f" (its roles: {own}); the roles that do: {', '.join(roles)}"
        if Role.WORKER in roles:
            text += (
                "; a worker gets its role with a join token: holdfast token create NAME --kind join"
            )
    return Denied(reason, f"{principal.name} may not do {operation}: {text}")
