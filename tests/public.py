"""The public names of Holdfast: docs/reference/public.md is written from them.

A name that is added here is a promise; one that is removed breaks applications.
"""

from __future__ import annotations

FACES = {
    "holdfast": """BlockingContext BlockingGroupHandle BlockingTaskHandle Cancel Context DependencyPolicy
        Edge Event GroupHandle GroupProgress HoldfastError Position Priority Reject Retry Snooze
        Status Task TaskFunction TaskHandle TaskQueue Unique WorkerState""",
    "holdfast.client": """AlreadyLocked AmbiguousId ApprovalAnswer ApprovalNeeded ApprovalVoid
        AuditView BackfillRow Backfilled BadSelector BadSignature BlockRow BlockView
        BlockingClaim BlockingClient BlockingNode BlockingWatch CheckpointView Claim Client
        Command CommandRefused ConflictView DeadGroup DecisionView DeliveryView DryRunView
        EmptySelection EventView ExecutionView ExecutionWhy FoldedOutput Forbidden
        GatewayUnavailable GroupView HoldfastError HostImport HostRow HostSelection HostView
        Intervened Intervention IssuedWebhook JobAnswer JobChanged JobRejected JobRow JobView
        LocalTask LockView Malformed NewTask Node NodeFenced NodeView NotRunner OpenApproval
        OperationView OutputChunk PlanRow PreconditionFailed ProjectView QueueView RateLimited
        Refused Rows ScheduleView SelfApproval Settled SlowConsumer SyncReport TaskEdit
        TaskGroupRef TaskGroupView TaskNotClaimable TaskRef TaskRow TaskView TokenView TooLarge
        Unauthenticated UnknownCommandType UnknownHost UnknownNode UnsupportedMedia Watch
        WatchItem WebhookView Who Why problem_of""",
    "holdfast.idempotency": """FAMILIES Answered BlockingLedger Done Entry EntryKey EntryLease Failed Ledger
        OnError State""",
    "holdfast.kv": """Answer AsyncRedisKV AsyncTransaction BadCommand Entry MemoryKV NotAFloat NotAnInteger
        NotText Op Overflow RedisKV Transaction WatchFailed WrongType dumps dumps_line loads""",
    "holdfast.locks": """FAMILIES AsyncRedlock BlockingEfficiencyLocks BlockingLease BlockingLocks
        ConcurrentModification ConcurrentModificationError DistributedLock EfficiencyLease EfficiencyLocks
        Lease LeaseInfo LockHandle Locks LossReason OptimisticLockError Redlock TaskAlreadyAssigned
        TaskAlreadyAssignedError update_with_retry""",
    "holdfast.orders": """CALM ROUGH Alert AsyncOrderStore DurableOrderStore Exchange ExchangeOrder
        ExchangeState ExecutionLoop Faults Fill FreezeState InMemoryOrderStore Intent Limits Order
        OrderState OrderStore Quote RecoveryReport Request RiskMonitor Side SimulatedExchange
        SqlOrderStore SqlOrders""",
    "holdfast.retry": """FAMILIES Attempt RetryBudget StopReason aretry aretry_with_log is_retryable retry
        retry_with_log retrying""",
    "holdfast.testing": "Harness NeverIdle VirtualClock harness simulated",
}
"""Modules whose names are imported on first use."""

OTHERS = {
    "holdfast.clock": "BlockingClock Clock SystemClock VirtualClock",
    "holdfast.django.backend": "HoldfastBackend",
    "holdfast.engine.meters": "FAMILIES",
    "holdfast.errors": """AlreadyDecided BadConfig BatchTooLarge Conflict DecisionExpired DecisionNeeded
        DependencyCycle DiskFull DuplicateTask EffectFailed EngineFailed FeedReset
        HoldfastError IdempotencyConflict IllegalTransition InProgress InvalidInput
        LeaseLost MissingExtra MissingPrivilege NotFound NotLocked NotRunning NotSupported
        PayloadTooLarge QueueFull QueueStopping SchemaMismatch StoreBusy StoreUnavailable
        TaskFailed UnknownDependency UnknownPriority UnknownType UnserialisablePayload
        VersionConflict WaitTimeout WrongLoop""",
    "holdfast.fleet.celery": "install",
    "holdfast.gateway.settings": "fleet_options",
    "holdfast.metrics": "Family Kind Meter Metrics NullMeter",
    "holdfast.orders.errors": """CorruptLog CorruptSnapshot CorruptState ExchangeFailed ExchangeTimeout
        InvalidOrder NotReconciled OrdersFrozen OverFill RiskRefused StateBehind StateLocked StoreFailed
        UnknownOrder""",
    "holdfast.orders.execution.metrics": "FAMILIES",
    "holdfast.orders.metrics": "FAMILIES",
    "holdfast.otel": "instrument",
    "holdfast.primitives.prometheus": "collector",
}

INTERNAL = [
    "agent",
    "app",
    "bus",
    "cli",
    "config",
    "core",
    "engine",
    "evidence",
    "fleet",
    "forks",
    "gateway",
    "portal",
    "primitives",
    "proto",
    "queue",
    "remote",
    "sim",
    "store",
    "sync",
    "tracing",
    "variables",
    "web",
]
"""Modules and packages below `holdfast` that applications do not import, but for the names above. The
docstring of each says so."""

PUBLIC = {module: tuple(text.split()) for module, text in (FACES | OTHERS).items()}
