"""Credentials of workers: which node a connection speaks for.

Promises: a credential of a node speaks for that node; a join token registers a new node and never speaks for
an existing one; an administrator speaks for any node. The table of roles decides (`core.rights`).
"""

from __future__ import annotations

import msgspec

from holdfast.core.access import ALL_PROJECTS, Allowed, Principal, judge
from holdfast.core.errors import Forbidden
from holdfast.core.rights import Operation, PrincipalKind
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import check_new_id
from holdfast.gateway.auth.bearer import Authenticator
from holdfast.gateway.worker.ports import WorkerPrincipal


class Speaker(msgspec.Struct, frozen=True):
    """The principal of a worker's connection."""

    principal: Principal
    node: str
    project: str
    kind: str = "worker"
    join_token_id: str | None = None

    def named(self, worker_id: str) -> Speaker:
        """See `WorkerPrincipal`."""
        if self.node and worker_id in ("", self.node):
            return self
        if self.node:
            raise Forbidden(f"this credential is of node '{self.node}', not of '{worker_id}'")
        if not worker_id:
            raise Forbidden(
                "this credential is not of one node: name the worker in hello (workerId)"
            )
        node = check_new_id("workerId", worker_id)
        if self.join_token_id is None:
            _check(self.principal, self.project, node)
        return msgspec.structs.replace(self, node=node)


class WorkerAuth:
    """Authenticates workers for one gateway."""

    def __init__(self, auth: Authenticator) -> None:
        self._auth = auth

    async def __call__(self, secret: str) -> WorkerPrincipal:
        """Unauthenticated for a credential that does not count, Forbidden for one that runs no tasks."""
        authenticated = await self._auth.by_secret(secret)
        return self.speaker(authenticated.principal, authenticated.token_id)

    def speaker(self, principal: Principal, token_id: str | None) -> Speaker:
        """The principal of a credential. Forbidden for one that runs no tasks."""
        project = _home(principal)
        if principal.kind is PrincipalKind.JOIN:
            verdict = judge(principal, Operation.NODES_REGISTER, project=project)
            if not isinstance(verdict, Allowed):
                raise Forbidden(verdict.message)
            return Speaker(principal, "", project, join_token_id=token_id)
        if principal.node is None:
            # May it speak for some node? `named` checks the one that it names.
            _check(principal, project, "*")
            return Speaker(principal, "", project)
        _check(principal, project, principal.node)
        return Speaker(principal, principal.node, project)


def _check(principal: Principal, project: str, node: str) -> None:
    verdict = judge(principal, Operation.SYNC_RUN, project=project, owner_node=node)
    if not isinstance(verdict, Allowed):
        raise Forbidden(verdict.message)


def _home(principal: Principal) -> str:
    """The project whose tasks the worker runs: its only one, or the default one."""
    names = principal.projects - {ALL_PROJECTS}
    if ALL_PROJECTS in principal.projects or DEFAULT_PROJECT in names:
        return DEFAULT_PROJECT
    return min(names, default=DEFAULT_PROJECT)
