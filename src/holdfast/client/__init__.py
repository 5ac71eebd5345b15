"""The client of a gateway: `Client` for asyncio, `BlockingClient` for callers that block, `Node` (and
`BlockingNode`) for work without a connection.

It needs no database: `pip install 'holdfast[client]'`. Its calls are those of the REST API; its errors are
those of `holdfast.errors`. docs/howto/client.md and docs/howto/offline.md show it. Public are the names of
this package; its modules are internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.client.admin_models import ConflictView
    from holdfast.client.blocking import BlockingClient
    from holdfast.client.bridge import BlockingWatch
    from holdfast.client.client import Client, TaskEdit
    from holdfast.client.fleet_models import BlockView, HostView
    from holdfast.client.job_models import ExecutionView, JobAnswer, JobView
    from holdfast.client.models import (
        DecisionView,
        EventView,
        Intervened,
        Intervention,
        NewTask,
        OutputChunk,
        TaskRef,
        TaskRow,
        TaskView,
        Why,
    )
    from holdfast.client.node.blocking import BlockingClaim, BlockingNode
    from holdfast.client.node.claim import Claim
    from holdfast.client.node.commands import Command
    from holdfast.client.node.exchange import SyncReport
    from holdfast.client.node.journal import Refused
    from holdfast.client.node.node import LocalTask, Node
    from holdfast.client.problems import problem_of
    from holdfast.client.watch import Watch, WatchItem

_MODELS = (
    "DecisionView",
    "EventView",
    "Intervened",
    "Intervention",
    "NewTask",
    "OutputChunk",
    "TaskRef",
    "TaskRow",
    "TaskView",
    "Why",
)
__all__ = [
    "BlockView",
    "BlockingClaim",
    "BlockingClient",
    "BlockingNode",
    "BlockingWatch",
    "Claim",
    "Client",
    "Command",
    "ConflictView",
    "DecisionView",
    "EventView",
    "ExecutionView",
    "HostView",
    "Intervened",
    "Intervention",
    "JobAnswer",
    "JobView",
    "LocalTask",
    "NewTask",
    "Node",
    "OutputChunk",
    "Refused",
    "SyncReport",
    "TaskEdit",
    "TaskRef",
    "TaskRow",
    "TaskView",
    "Watch",
    "WatchItem",
    "Why",
    "problem_of",
]

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            "holdfast.client.admin_models": ["ConflictView"],
            "holdfast.client.blocking": ["BlockingClient"],
            "holdfast.client.bridge": ["BlockingWatch"],
            "holdfast.client.client": ["Client", "TaskEdit"],
            "holdfast.client.fleet_models": ["BlockView", "HostView"],
            "holdfast.client.job_models": ["ExecutionView", "JobAnswer", "JobView"],
            "holdfast.client.models": _MODELS,
            "holdfast.client.node.blocking": ["BlockingClaim", "BlockingNode"],
            "holdfast.client.node.claim": ["Claim"],
            "holdfast.client.node.commands": ["Command"],
            "holdfast.client.node.exchange": ["SyncReport"],
            "holdfast.client.node.journal": ["Refused"],
            "holdfast.client.node.node": ["LocalTask", "Node"],
            "holdfast.client.problems": ["problem_of"],
            "holdfast.client.watch": ["Watch", "WatchItem"],
        },
    )
