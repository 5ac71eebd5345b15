"""A server of the sync protocol in memory, made of the rules in `core`: versions, strategies, the ledger of
mutations, the feed of changes, tombstones. It can lose its past, as a restored server does."""

from __future__ import annotations

import copy
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import TooLarge
from holdfast.core.exchange.conflict import judge
from holdfast.core.exchange.content_hash import content_hash
from holdfast.core.exchange.handshake import ClientEntry, ServerEntry, Tombstone, compare
from holdfast.core.exchange.item_wire import InvalidItem, read_item
from holdfast.core.exchange.merge import Stamp
from holdfast.core.exchange.push import Current, PushItem
from holdfast.core.exchange.strategy import (
    Content,
    ContentChange,
    Strategies,
    Strategy,
    Unmerged,
    apply_change,
)
from holdfast.core.exchange.verdict import Action
from holdfast.core.task import Status

Fields = dict[str, Any]
BODY_MAX = 3_000
"""Bytes of a push that the server takes."""


class ModelTask:
    def __init__(self, name: str, type: str, content: Content, request_hash: str) -> None:
        self.name = name
        self.type = type
        self.version = 1
        self.status = Status.QUEUED
        self.content = content
        self.request_hash = request_hash

    def current(self) -> Current:
        return Current(
            self.status,
            self.version,
            payload_json=self.content.payload_json,
            payload_version=self.content.payload_version,
            request_hash=self.request_hash,
        )

    def view(self) -> Fields:
        metadata = {key: codec.loads(v.value_json) for key, v in self.content.metadata.items()}
        payload = codec.loads(self.content.payload_json)
        labels = sorted(self.content.labels.members)
        hash = content_hash(
            self.name, self.type, self.status,
            payload=payload, result=None, metadata=metadata, labels=labels,
        )  # fmt: skip
        return {
            "id": self.name, "type": self.type, "status": self.status.value, "version": self.version,
            "payload": payload, "result": None, "metadata": metadata, "labels": labels,
            "sync": {"contentHash": hash},
        }  # fmt: skip


class ModelServer:
    """The three calls of a node."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategies = Strategies(strategy)
        self.epoch = 1
        self.oldest = 0
        self.changes: list[str] = []
        self.tasks: dict[str, ModelTask] = {}
        self.tombstones: dict[str, Tombstone] = {}
        self.ledger: dict[str, tuple[str, Fields]] = {}
        self.applied: dict[str, int] = {}
        """How often each mutation took effect."""
        self.clock = 0
        self.saved: ModelServer | None = None

    def cursor(self) -> str:
        return f"e{self.epoch}:{self.oldest + len(self.changes)}"

    # -- faults ------------------------------------------------------------------------------------

    def backup(self) -> None:
        self.saved = None
        self.saved = copy.deepcopy(self)

    def restore(self) -> None:
        """The server goes back to its backup; its history is another one from now on."""
        if self.saved is not None:
            epoch, saved = self.epoch, copy.deepcopy(self.saved)
            self.__dict__.update(saved.__dict__)
            self.epoch = epoch + 1
            self.saved = None

    def prune(self) -> None:
        self.oldest += len(self.changes)
        self.changes = []

    def delete(self, name: str) -> None:
        task = self.tasks.pop(name, None)
        if task is not None:
            self.tombstones[name] = Tombstone(task.version + 1, 0.0)
            self.changes.append(name)

    # -- calls -------------------------------------------------------------------------------------

    async def handshake(self, body: Fields) -> Fields:
        cursor = body.get("cursor")
        names = set(self.tasks) | set(self.tombstones)
        if cursor is not None:
            epoch, _, offset = cursor.rpartition(":")
            reason = None
            if epoch != f"e{self.epoch}":
                reason = "epoch"
            elif int(offset) < self.oldest:
                reason = "pruned"
            if reason is not None:
                reset = {"reason": reason, "cursor": self.cursor()}
                return {"serverClock": self.clock, "cursor": self.cursor(), "reset": reset}
            names = set(self.changes[int(offset) - self.oldest :])
        client = {
            name: ClientEntry(version, **self._base(body, name))
            for name, version in body["taskVersions"].items()
        }
        listed = names | set(client)
        server = {
            name: ServerEntry(task.version, task.view()["sync"]["contentHash"])
            for name, task in self.tasks.items()
            if name in listed
        }
        stones = {name: stone for name, stone in self.tombstones.items() if name in listed}
        answer = compare(client, server, stones)
        return {
            "serverClock": self.clock, "cursor": self.cursor(), "reset": None, "nextCursor": None,
            "needsPull": list(answer.needs_pull), "newTasks": list(answer.new_tasks),
            "deleted": [{"taskId": each.task_id} for each in answer.deleted],
        }  # fmt: skip

    def _base(self, body: Fields, name: str) -> Fields:
        base = body.get("bases", {}).get(name, {})
        return {"is_dirty": base.get("dirty", False), "hash": base.get("hash")}

    async def pull(self, body: Fields) -> Fields:
        names = body["taskIds"]
        return {
            "serverClock": self.clock,
            "tasks": [self.tasks[name].view() for name in names if name in self.tasks],
            "deleted": [
                {"taskId": n} for n in names if n in self.tombstones and n not in self.tasks
            ],
            "missing": [n for n in names if n not in self.tasks and n not in self.tombstones],
        }

    async def push(self, body: Fields) -> Fields:
        if len(codec.dumps(body)) > BODY_MAX:
            raise TooLarge(f"the body is larger than {BODY_MAX} bytes")
        results = [self._apply(body["nodeId"], item) for item in body["tasks"]]
        return {"results": results, "serverClock": self.clock}

    def _apply(self, node: str, item: Fields) -> Fields:
        mutation_id, name = item["mutationId"], item["id"]
        fingerprint = codec.dumps(item)
        if mutation_id in self.ledger:
            known, answer = self.ledger[mutation_id]
            assert known == fingerprint, "a mutation id was used for another body"
            return {**answer, "duplicate": True}
        if isinstance(read_item(codec.dumps(item).encode()), InvalidItem):
            return {"taskId": name, **self._refused("INVALID_INPUT", self.tasks.get(name))}
        answer = {"taskId": name, **self._judged(node, item)}
        if answer["success"]:
            self.applied[mutation_id] = self.applied.get(mutation_id, 0) + 1
            self.ledger[mutation_id] = (fingerprint, answer)
        return answer

    def _judged(self, node: str, item: Fields) -> Fields:
        name, task = item["id"], self.tasks.get(item["id"])
        labels = item.get("labels", {})
        change = ContentChange(
            codec.dumps(item["payload"]) if "payload" in item else None,
            {key: codec.dumps(value) for key, value in item.get("metadata", {}).items()},
            frozenset(labels.get("add", ())),
            frozenset(labels.get("remove", ())),
        )
        request_hash = "" if item["expectedVersion"] else codec.digest(codec.dumps(item))
        asked = PushItem(
            node,
            item["expectedVersion"],
            item.get("status"),
            change=change,
            request_hash=request_hash,
        )
        current = None if task is None else task.current()
        verdict = judge(asked, current, self.strategies, is_deleted=name in self.tombstones)
        stamp = Stamp(1 if task is None else task.version + 1, item["mutationId"])
        match verdict.action:
            case Action.CREATE:
                empty = Content("null", 1)
                content = apply_change(
                    empty,
                    change,
                    version=0,
                    base_version=0,
                    stamp=stamp,
                    strategies=self.strategies,
                )
                assert not isinstance(content, Unmerged)
                self.tasks[name] = ModelTask(
                    name, item.get("type", "external"), content, request_hash
                )
                self.tombstones.pop(name, None)
                return self._written(name)
            case Action.DUPLICATE:
                assert task is not None
                return {"success": True, "newVersion": task.version, "duplicate": True}
            case Action.EDIT | Action.MERGE_CONTENT:
                assert task is not None
                after = apply_change(
                    task.content, change, version=task.version,
                    base_version=item["expectedVersion"], stamp=stamp, strategies=self.strategies,
                )  # fmt: skip
                assert not isinstance(after, Unmerged)
                task.content, task.version = after, task.version + 1
                return self._written(name)
            case _:
                return self._refused(str(verdict.error), task)

    def _refused(self, error: str, task: ModelTask | None) -> Fields:
        answer: Fields = {"success": False, "error": error}
        if task is not None:
            state = task.view()
            del state["payload"], state["result"]
            answer["serverState"] = state
        return answer

    def _written(self, name: str) -> Fields:
        self.changes.append(name)
        self.clock += 1
        return {"success": True, "newVersion": self.tasks[name].version}
