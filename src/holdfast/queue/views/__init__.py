"""The JSON form of each object: what the command line prints with `-o json`, what the gateway answers and
what the feed sends. `read_...` is the reverse, for a `TaskQueue` behind a gateway.

Promises: one shape for each object, which is a struct of `client.models`. Single objects have their bodies,
rows of lists have previews and sizes.
"""

from holdfast.queue.views.decisions import (
    decision,
    dry_run,
    intervention,
    read_asked_point,
    read_decision,
    read_dry_run,
    read_intervention,
    whole_decision,
)
from holdfast.queue.views.events import event, read_event
from holdfast.queue.views.locks import lock, lock_act, read_lock, read_lock_act, whole_lock
from holdfast.queue.views.nodes import node, read_node
from holdfast.queue.views.queues import (
    dead_group,
    key_weight,
    queue,
    read_dead_group,
    read_key_weight,
    read_queue,
    read_schedule,
    schedule,
)
from holdfast.queue.views.stats import stats
from holdfast.queue.views.tasks import (
    read_details,
    read_task,
    read_task_group,
    read_why,
    task,
    task_group,
    task_row,
    why,
)
from holdfast.queue.views.values import View, at, shown, time_of

__all__ = [
    "View",
    "at",
    "dead_group",
    "decision",
    "dry_run",
    "event",
    "intervention",
    "key_weight",
    "lock",
    "lock_act",
    "node",
    "queue",
    "read_asked_point",
    "read_dead_group",
    "read_decision",
    "read_details",
    "read_dry_run",
    "read_event",
    "read_intervention",
    "read_key_weight",
    "read_lock",
    "read_lock_act",
    "read_node",
    "read_queue",
    "read_schedule",
    "read_task",
    "read_task_group",
    "read_why",
    "schedule",
    "shown",
    "stats",
    "task",
    "task_group",
    "task_row",
    "time_of",
    "whole_decision",
    "whole_lock",
    "why",
]
