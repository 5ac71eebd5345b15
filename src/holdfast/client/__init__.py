"""The client of a gateway: `Client` for asyncio, `BlockingClient` for callers that block, `Node` (and
`BlockingNode`) for work without a connection.

It needs no database: `pip install 'holdfast[client]'`. Its calls are those of the REST API. Its errors are
those of `holdfast.errors`, and the errors of requests, which are here too. docs/howto/client.md and
docs/howto/offline.md show it. Public are the names of this package; its modules are internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.client.admin_models import (
        AuditView,
        Backfilled,
        BackfillRow,
        ConflictView,
        DeadGroup,
        LockView,
        NodeView,
        OperationView,
        ProjectView,
        QueueView,
        ScheduleView,
        Settled,
        TokenView,
        Who,
    )
    from holdfast.client.api import Rows
    from holdfast.client.blocking import BlockingClient
    from holdfast.client.bridge import BlockingWatch
    from holdfast.client.client import Client, TaskEdit
    from holdfast.client.fleet_models import (
        BlockRow,
        BlockView,
        GroupView,
        HostImport,
        HostRow,
        HostSelection,
        HostView,
    )
    from holdfast.client.job_models import (
        ApprovalAnswer,
        ExecutionView,
        ExecutionWhy,
        FoldedOutput,
        JobAnswer,
        JobChanged,
        JobRow,
        JobView,
        OpenApproval,
        PlanRow,
    )
    from holdfast.client.models import (
        CheckpointView,
        DecisionView,
        DryRunView,
        EventView,
        Intervened,
        Intervention,
        NewTask,
        OutputChunk,
        TaskGroupRef,
        TaskGroupView,
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
    from holdfast.client.webhook_models import DeliveryView, IssuedWebhook, WebhookView
    from holdfast.core.errors import (
        AlreadyLocked,
        AmbiguousId,
        ApprovalNeeded,
        ApprovalVoid,
        BadSelector,
        BadSignature,
        CommandRefused,
        EmptySelection,
        Forbidden,
        GatewayUnavailable,
        JobRejected,
        Malformed,
        NodeFenced,
        NotRunner,
        PreconditionFailed,
        RateLimited,
        SelfApproval,
        SlowConsumer,
        TaskNotClaimable,
        TooLarge,
        Unauthenticated,
        UnknownCommandType,
        UnknownHost,
        UnknownNode,
        UnsupportedMedia,
    )
    from holdfast.errors import HoldfastError

_ADMIN = (
    "AuditView",
    "Backfilled",
    "BackfillRow",
    "ConflictView",
    "DeadGroup",
    "LockView",
    "NodeView",
    "OperationView",
    "ProjectView",
    "QueueView",
    "ScheduleView",
    "Settled",
    "TokenView",
    "Who",
)
_FLEET = (
    "BlockRow",
    "BlockView",
    "GroupView",
    "HostImport",
    "HostRow",
    "HostSelection",
    "HostView",
)
_JOBS = (
    "ApprovalAnswer",
    "ExecutionView",
    "ExecutionWhy",
    "FoldedOutput",
    "JobAnswer",
    "JobChanged",
    "JobRow",
    "JobView",
    "OpenApproval",
    "PlanRow",
)
_ERRORS = (
    "AlreadyLocked",
    "AmbiguousId",
    "ApprovalNeeded",
    "ApprovalVoid",
    "BadSelector",
    "BadSignature",
    "CommandRefused",
    "EmptySelection",
    "Forbidden",
    "GatewayUnavailable",
    "JobRejected",
    "Malformed",
    "NodeFenced",
    "NotRunner",
    "PreconditionFailed",
    "RateLimited",
    "SelfApproval",
    "SlowConsumer",
    "TaskNotClaimable",
    "TooLarge",
    "Unauthenticated",
    "UnknownCommandType",
    "UnknownHost",
    "UnknownNode",
    "UnsupportedMedia",
)
_MODELS = (
    "CheckpointView",
    "DecisionView",
    "DryRunView",
    "EventView",
    "Intervened",
    "Intervention",
    "NewTask",
    "OutputChunk",
    "TaskGroupRef",
    "TaskGroupView",
    "TaskRef",
    "TaskRow",
    "TaskView",
    "Why",
)
__all__ = [
    "AlreadyLocked",
    "AmbiguousId",
    "ApprovalAnswer",
    "ApprovalNeeded",
    "ApprovalVoid",
    "AuditView",
    "BackfillRow",
    "Backfilled",
    "BadSelector",
    "BadSignature",
    "BlockRow",
    "BlockView",
    "BlockingClaim",
    "BlockingClient",
    "BlockingNode",
    "BlockingWatch",
    "CheckpointView",
    "Claim",
    "Client",
    "Command",
    "CommandRefused",
    "ConflictView",
    "DeadGroup",
    "DecisionView",
    "DeliveryView",
    "DryRunView",
    "EmptySelection",
    "EventView",
    "ExecutionView",
    "ExecutionWhy",
    "FoldedOutput",
    "Forbidden",
    "GatewayUnavailable",
    "GroupView",
    "HoldfastError",
    "HostImport",
    "HostRow",
    "HostSelection",
    "HostView",
    "Intervened",
    "Intervention",
    "IssuedWebhook",
    "JobAnswer",
    "JobChanged",
    "JobRejected",
    "JobRow",
    "JobView",
    "LocalTask",
    "LockView",
    "Malformed",
    "NewTask",
    "Node",
    "NodeFenced",
    "NodeView",
    "NotRunner",
    "OpenApproval",
    "OperationView",
    "OutputChunk",
    "PlanRow",
    "PreconditionFailed",
    "ProjectView",
    "QueueView",
    "RateLimited",
    "Refused",
    "Rows",
    "ScheduleView",
    "SelfApproval",
    "Settled",
    "SlowConsumer",
    "SyncReport",
    "TaskEdit",
    "TaskGroupRef",
    "TaskGroupView",
    "TaskNotClaimable",
    "TaskRef",
    "TaskRow",
    "TaskView",
    "TokenView",
    "TooLarge",
    "Unauthenticated",
    "UnknownCommandType",
    "UnknownHost",
    "UnknownNode",
    "UnsupportedMedia",
    "Watch",
    "WatchItem",
    "WebhookView",
    "Who",
    "Why",
    "problem_of",
]

_EXTRA = ("httpx2", "websockets")
"""What the extra `client` installs."""

if not TYPE_CHECKING:
    _get = lazily(
        __name__,
        {
            "holdfast.client.admin_models": _ADMIN,
            "holdfast.client.api": ["Rows"],
            "holdfast.client.blocking": ["BlockingClient"],
            "holdfast.client.bridge": ["BlockingWatch"],
            "holdfast.client.client": ["Client", "TaskEdit"],
            "holdfast.client.fleet_models": _FLEET,
            "holdfast.client.job_models": _JOBS,
            "holdfast.client.webhook_models": ["DeliveryView", "IssuedWebhook", "WebhookView"],
            "holdfast.client.models": _MODELS,
            "holdfast.client.node.blocking": ["BlockingClaim", "BlockingNode"],
            "holdfast.client.node.claim": ["Claim"],
            "holdfast.client.node.commands": ["Command"],
            "holdfast.client.node.exchange": ["SyncReport"],
            "holdfast.client.node.journal": ["Refused"],
            "holdfast.client.node.node": ["LocalTask", "Node"],
            "holdfast.client.problems": ["problem_of"],
            "holdfast.client.watch": ["Watch", "WatchItem"],
            "holdfast.core.errors": _ERRORS,
            "holdfast.errors": ["HoldfastError"],
        },
    )

    def __getattr__(name: str):
        try:
            return _get(name)
        except ModuleNotFoundError as error:
            if error.name not in _EXTRA:
                raise
            from holdfast.errors import MissingExtra

            raise MissingExtra(
                f"{__name__}.{name} needs {error.name}: pip install 'holdfast[client]'"
            ) from None
