"""Credentials of workers: which node a connection speaks for.

Promises: a credential of a node speaks for that node; a join token registers a new node and never speaks for
an existing one; an administrator speaks for any node. The table of roles decides (`core.rights`).
"""

from __future__ import annotations

import msgspec

from holdfast.core.access import Allowed, Principal, home_project, judge
from holdfast.core.errors import Forbidden
from holdfast.core.rights import Operation, PrincipalKind
from holdfast.core.wire import check_new_id


class Speaker(msgspec.Struct, frozen=True):
    """The node that a worker's connection speaks for. The project never comes from a message, and the node
    only where the credential may speak for any node."""

    principal: Principal
    node: str
    """Empty until `named`, for a credential that is not bound to a node."""
    project: str
    kind: str = "worker"
    """The kind that the node registers as: `worker` or `plugin`."""
    join_token_id: str | None = None
    """The id of the join token that pays for the registration of a new node."""

    def named(self, worker_id: str) -> Speaker:
        """The speaker of a `Hello` that names a worker. Forbidden if it may not speak for it."""
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


def speaker_of(principal: Principal, token_id: str | None) -> Speaker:
    """The speaker of a credential. Forbidden for one that runs no tasks, NodeFenced if its node is
    quarantined."""
    project = home_project(principal)
    if principal.kind is PrincipalKind.JOIN:
        verdict = judge(principal, Operation.NODES_REGISTER, project=project)
        if not isinstance(verdict, Allowed):
            raise verdict.error()
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
        raise verdict.error()
