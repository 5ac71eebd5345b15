"""The calls of a queue that inspect and change what is stored: short methods over the parts (`parts.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Unpack

from msgspec import UNSET

from holdfast.core.check import PAGE_MAX
from holdfast.core.decision import Decision
from holdfast.core.event import Event, Position
from holdfast.core.intervention import Intervention
from holdfast.core.seconds import Seconds, in_seconds
from holdfast.core.task import Status, Task
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter, DeadGroup
from holdfast.queue.decisions import ChoiceOptions, DecisionFilter
from holdfast.queue.feed import EventHandler
from holdfast.queue.interventions import InterveneOptions
from holdfast.queue.nodes import Node
from holdfast.queue.parts import Parts
from holdfast.queue.queues import QueueView
from holdfast.queue.stats import Stats
from holdfast.queue.subscriptions import Unsubscribe
from holdfast.queue.why import Why
from holdfast.store.rows import KeyWeight


class OperatorCalls:
    """Inspects and changes tasks, queues, nodes and dead letters. A part of `Queue`."""

    parts: Parts

    # -- inspect -----------------------------------------------------------------------------------

    async def get_stats(self) -> Stats:
        """Returns the numbers of tasks, workers and nodes, exact as of now."""
        return await self.parts.stats.get()

    async def get_queue_size(self, queue: str | None = None) -> int:
        """Returns the number of queued and running tasks, of one queue or of all."""
        return await self.parts.queues.size(queue)

    async def find_tasks(
        self,
        *,
        status: Status | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        prefix: str | None = None,
        q: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """Returns one page of the tasks that match, newest first. `after`: the last id of the previous
        page. `prefix`: the beginning of the id. `q`: a query such as `tag:vip meta.tenant:acme age:>1h`
        (docs/reference/cli.md, Queries)."""
        return await self.parts.tasks.find(
            status=status, type=type, queue=queue, prefix=prefix, q=q, after=after, limit=limit
        )

    async def get_dependents(self, task_id: str, *, limit: int = PAGE_MAX) -> list[str]:
        """Returns the ids of the tasks that depend on this one."""
        return await self.parts.tasks.dependents(task_id, limit=limit)

    async def history(self, task_id: str) -> list[Event]:
        """Returns the stored events of a task, oldest first. Older events may have been pruned."""
        return await self.parts.tasks.history(task_id)

    async def why(self, task_id: str) -> Why:
        """Explains why a task is not running."""
        return await self.parts.tasks.why(task_id)

    async def position(self) -> Position:
        """Returns the current end of the feed."""
        return await self.parts.feed.position()

    def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Yields all events after a position, in order, without duplicates. None: from the oldest one. With
        `follow` it then waits for new events. Raises FeedReset if the position is no longer covered."""
        return self.parts.feed.events(after, follow=follow)

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        """Calls the handler for every event from now on, in order. Call the returned object to unsubscribe,
        and `await` that call to wait until the handler has returned. A slow handler does not delay others."""
        return self.parts.feed.on_event(handler)

    async def get_queues(self) -> list[QueueView]:
        """Returns every queue that has tasks, types or a pause, by name."""
        return await self.parts.queues.list()

    async def get_nodes(self, *, live: bool = True) -> list[Node]:
        """Returns the live nodes. With `live=False`, also nodes that no longer report."""
        return await self.parts.nodes.list(live=live)

    # -- change, replay ----------------------------------------------------------------------------

    async def cancel(
        self,
        task_id: str,
        *,
        actor: str = "api",
        reason: str = "",
        expected_version: int | None = None,
    ) -> Task:
        """Aborts a task and cancels its running handler. Raises IllegalTransition if it has completed or was
        aborted, NotFound if it does not exist, and Conflict if its version is not `expected_version`."""
        return await self.parts.tasks.cancel(task_id, By(actor, reason, expected_version))

    async def pause_task(
        self,
        task_id: str,
        *,
        actor: str = "api",
        reason: str = "",
        expected_version: int | None = None,
    ) -> Task:
        """Stops a running task until it is resumed. No attempt is used. `expected_version`: see `cancel`."""
        return await self.parts.tasks.pause(task_id, By(actor, reason, expected_version))

    async def resume_task(
        self,
        task_id: str,
        *,
        actor: str = "api",
        reason: str = "",
        expected_version: int | None = None,
    ) -> Task:
        """Returns a paused task to the queue. `expected_version`: see `cancel`."""
        return await self.parts.tasks.resume(task_id, By(actor, reason, expected_version))

    async def intervene(
        self, task_id: str, type: str, reason: str, **options: Unpack[InterveneOptions]
    ) -> Intervention:
        """Aborts, pauses, resumes, retries, reassigns, releases or forces a task, and follows its runner."""
        return await self.parts.interventions.intervene(task_id, type, reason, **options)

    async def decisions(self, **where: Unpack[DecisionFilter]) -> list[Decision]:
        """Returns one page of the questions that handlers asked with `ctx.decide`, the latest first."""
        return await self.parts.decisions.list(**where)

    async def decide(
        self, decision_id: str, choice: object, **options: Unpack[ChoiceOptions]
    ) -> Decision:
        """Answers a decision: its task goes on. Raises AlreadyDecided if another answer was first."""
        return await self.parts.decisions.decide(decision_id, choice, **options)

    async def edit_task(
        self,
        task_id: str,
        payload: object,
        *,
        merge: bool = False,
        actor: str = "api",
        reason: str = "",
        expected_version: int | None = None,
    ) -> Task:
        """Replaces the payload of a waiting or dead task. With `merge`, replaces only these fields of it.
        The event `task.edited` records the old values. `expected_version`: see `cancel`."""
        by = By(actor, reason, expected_version)
        return await self.parts.tasks.edit(task_id, payload, by, merge=merge)

    async def pause_queue(
        self, name: str = "default", *, actor: str = "api", reason: str = ""
    ) -> None:
        """Stops all nodes from starting tasks of this queue until it is resumed. Running tasks continue."""
        await self.parts.queues.pause(name, By(actor, reason))

    async def resume_queue(
        self, name: str = "default", *, actor: str = "api", reason: str = ""
    ) -> None:
        """Resumes a paused queue."""
        await self.parts.queues.resume(name, By(actor, reason))

    async def set_weight(
        self, type: str, key: str, weight: int, *, actor: str = "api", reason: str = ""
    ) -> None:
        """Sets how many tasks a key of a fair type starts in one turn, from the next claim on. The weight of
        all other keys is 1. The key `""` is that of tasks without a key."""
        await self.parts.weights.set(type, key, weight, By(actor, reason))

    async def weights(self, type: str, *, after: str = "", limit: int = 100) -> list[KeyWeight]:
        """Returns the keys of a type whose weight is not 1, by key, from the first one behind `after`."""
        return await self.parts.weights.list(type, after=after, limit=limit)

    async def scale_workers(self, count: int) -> int:
        """Adds `count` workers to this process, or removes some if it is negative, and returns the new
        number. A busy worker is removed when its task ends. Added workers stay until they are removed, which
        restores `min_workers` and `max_workers`."""
        return await self.parts.runtime.scale_workers(count)

    async def get_dead_tasks(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
    ) -> list[Task]:
        """Returns one page of the dead letters that match, the latest first."""
        which = DeadFilter(type, queue, fingerprint)
        return await self.parts.dead_letters.page(which, limit=limit, offset=offset)

    async def get_dead_groups(self, *, limit: int = 50) -> list[DeadGroup]:
        """Returns the dead letters grouped by error fingerprint, the largest group first."""
        return await self.parts.dead_letters.groups(limit=limit)

    async def replay_dead_task(
        self,
        task_id: str,
        *,
        payload: object = UNSET,
        patch: Mapping[str, object] | None = None,
        delay: Seconds = 0.0,
        actor: str = "api",
        reason: str = "",
        expected_version: int | None = None,
    ) -> Task:
        """Enqueues a dead letter again with new attempts, and with `payload` if given, or with its own after
        a merge patch (RFC 7396). Dependents that failed with it wait for it again. Raises IllegalTransition
        if it is not a dead letter, and NotFound if it does not exist. `expected_version`: see `cancel`."""
        by = By(actor, reason, expected_version)
        return await self.parts.dead_letters.replay(
            task_id, by, payload=payload, patch=patch, delay=in_seconds(delay)
        )

    async def replay_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
        patch: Mapping[str, object] | None = None,
        dry_run: bool = False,
        actor: str = "api",
        reason: str = "",
    ) -> int:
        """Replays all dead letters that match, at most `rate` per second, and returns how many. The rate is
        stored as a due time of each task, so it survives a restart. A task that failed with a parent is
        replayed with that parent, and waits for it. `patch`: a merge patch of their payloads (RFC 7396)."""
        which, by = DeadFilter(type, queue, fingerprint), By(actor, reason)
        letters = self.parts.dead_letters
        return await letters.replay_all(
            which, by, rate=rate, limit=limit, patch=patch, dry_run=dry_run
        )

    async def discard_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        actor: str = "api",
        reason: str = "discarded",
    ) -> int:
        """Aborts all dead letters that match, which is final, and returns how many."""
        which, by = DeadFilter(type, queue, fingerprint), By(actor, reason)
        return await self.parts.dead_letters.discard_all(which, by, limit=limit, dry_run=dry_run)
