"""An offline node: a plugin that reads and changes tasks without a connection, and syncs later.

    node = await Node.open(".holdfast", gateway="http://127.0.0.1:8787", project="proj", join_token=…)
    node.create("task-1", payload={"goal": "…"})
    node.edit("task-1", metadata={"reviewed": True})
    await node.sync()

Promises: a local call returns after its effect is on the disk. `sync` may be killed at any moment and
repeated: no change is lost, none takes effect twice. What the server refuses is in `conflicts`.
Never: needs the network for a local call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
import msgspec

from holdfast.client.address import read_addresses
from holdfast.client.http import Http, fresh_ids
from holdfast.client.node.claim import Claim
from holdfast.client.node.exchange import Exchange, SyncReport
from holdfast.client.node.identity import Identity, Wanted, identity_of
from holdfast.client.node.journal import Journal, Refused
from holdfast.client.node.report_log import HeldClaim
from holdfast.client.node.reports import Reports
from holdfast.client.node.start import CLAIMS_MAX, NodeStart
from holdfast.client.node.wire import SyncWire
from holdfast.clock import Clock, SystemClock
from holdfast.core.address import check_address
from holdfast.core.check import check_name, check_number
from holdfast.core.errors import AlreadyLocked
from holdfast.core.exchange.item import ERROR_CHARS_MAX
from holdfast.core.exchange.offline import Fields, Mutation, check_mutation, overlay
from holdfast.core.failure import evidence
from holdfast.core.ids import Ids
from holdfast.core.text import lines
from holdfast.core.wire import check_new_id
from holdfast.errors import BadConfig, Conflict, NotFound, QueueFull

JOURNAL: Final = "node.db"
CAPABILITIES: Final = ("execute", "sync", "fence")
LEASE_SECONDS: Final = 300.0


class LocalTask(msgspec.Struct, frozen=True):
    """A task as its author sees it: the server's state with the local changes on it."""

    id: str
    status: str
    payload: Any
    metadata: dict[str, Any]
    labels: list[str]
    result: Any
    version: int
    """The version that was read from the server. 0: the server does not know the task yet."""
    is_dirty: bool
    """Whether it has local changes that the server has not answered."""
    fields: Fields
    """All fields."""


class Node:
    """See the module. Make it with `open`."""

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        journal: Journal,
        http: Http,
        join_token: str | None,
        *,
        gateway: str | None = None,
    ) -> None:
        self._journal = journal
        self._http = http
        self._syncing = asyncio.Lock()
        self._claims: dict[str, Claim | None] = {}
        """The latest claim of each task in this process. None: it is being asked for."""
        self._start = NodeStart(
            folder, identity, journal, http, join_token, gateway=gateway, on_lost=self._lose
        )
        self._wire = SyncWire(
            http, identity.project, start=self._start.begun, on_fenced=self._start.forget
        )
        self.reports = Reports(journal, identity.node_id, http.clock, http.ids)
        """What its claims have written and the server may not have."""

    @classmethod
    async def open(
        cls,
        folder: Path | str = Path(".holdfast"),
        *,
        gateway: str | Sequence[str] | None = None,
        project: str | None = None,
        join_token: str | None = None,
        node_id: str | None = None,
        node_type: str = "plugin",
        capabilities: Sequence[str] = CAPABILITIES,
        clock: Clock | None = None,
        ids: Ids | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> Node:
        """Opens the folder of a node, and makes it at first. Needs no connection: the node registers when it
        syncs or claims for the first time. `join_token` is needed until then. Without `gateway` the node uses
        the one that it registered at last. `project` is "default" for a new folder; a folder stays in its
        project: BadConfig for another one."""
        place = _made(Path(folder))
        journal = Journal(place / JOURNAL)
        try:
            ids = ids or fresh_ids()
            named = None if gateway is None else _address(gateway)
            wanted = Wanted(
                node_id=node_id,
                node_type=node_type,
                project=project,
                gateway=named or "",
                capabilities=[*capabilities],
            )
            identity = identity_of(place, wanted, ids)
            address = read_addresses(named or identity.gateway)
            http = Http(
                address.urls,
                identity.credential,
                clock or SystemClock(),
                ids,
                verify=address.tls.context(),
                transport=transport,
            )
            return cls(place, identity, journal, http, join_token, gateway=named)
        except BaseException:
            journal.close()
            raise

    @property
    def node_id(self) -> str:
        """The id of the node: it stays the same in this folder."""
        return self._start.identity.node_id

    async def close(self) -> None:
        """Closes the connections and the folder. Claims are not renewed any more; the next start asks for
        those that have not ended."""
        for claim in self._claims.values():
            if claim is not None:
                await claim.stop_renewal()
        await self._http.close()
        self._journal.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # -- local: no connection ----------------------------------------------------------------------

    def get(self, task_id: str) -> LocalTask | None:
        """The task as it is here."""
        replica = self._journal.replica(task_id)
        log = self._journal.log(task_id)
        state = overlay(None if replica is None else replica.content, log)
        if state is None:
            return None
        return LocalTask(
            task_id,
            str(state.get("status", "queued")),
            state.get("payload"),
            state.get("metadata") or {},
            state.get("labels") or [],
            state.get("result"),
            0 if replica is None else replica.version,
            bool(log),
            state,
        )

    def tasks(self) -> list[LocalTask]:
        """All tasks that the node has."""
        names = [replica.id for replica in self._journal.replicas()]
        names += [each.task_id for each in self._journal.log() if each.task_id not in set(names)]
        found = (self.get(name) for name in dict.fromkeys(names))
        return [task for task in found if task is not None]

    def create(
        self,
        task_id: str,
        *,
        payload: Any = None,
        metadata: dict[str, Any] | None = None,
        labels: Sequence[str] = (),
        type: str | None = None,
        queue: str | None = None,
        priority: str | int | None = None,
    ) -> str:
        """Creates a task. Returns the id of the mutation. With a `type` the task is for workers: its queue is
        `default` unless `queue` names the one of the type. Without, type and queue are `external`: no worker
        takes it, nodes claim it by its id."""
        check_new_id("task_id", task_id)
        if self.get(task_id) is not None:
            raise Conflict(f"task {task_id} exists already: edit it, or choose another id")
        if type is not None and queue is None:
            queue = "default"
        options = {"type": type, "queue": queue, "priority": priority}
        change = {name: value for name, value in options.items() if value is not None}
        change |= _content(payload, metadata, labels, ())
        change["payload"] = payload
        return self._write(task_id, 0, None, change)

    def edit(
        self,
        task_id: str,
        *,
        payload: Any = msgspec.UNSET,
        metadata: dict[str, Any] | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
    ) -> str:
        """Changes the content of a task. Returns the id of the mutation."""
        change = _content(payload, metadata, add_labels, remove_labels)
        if not change:
            raise BadConfig("nothing is changed: give a payload, metadata or labels")
        return self._append(task_id, change)

    def set_status(
        self, task_id: str, status: str, *, result: Any = msgspec.UNSET, error: str | None = None
    ) -> str:
        """Asks for another status. The server decides whether this node may: a claim is needed for the end of
        a run. Returns the id of the mutation."""
        claims = {claim.task_id: claim for claim in self._journal.claims()}
        return self.end_run(claims.get(task_id), task_id, status, result=result, error=error)

    def end_run(
        self,
        claim: HeldClaim | None,
        task_id: str,
        status: str,
        *,
        result: Any = msgspec.UNSET,
        error: str | None = None,
    ) -> str:
        """The same under a claim: for that run and no other."""
        change: Fields = {"status": status}
        if result is not msgspec.UNSET:
            change["result"] = result
        if error is not None:
            # The text of an exception may have anything in it; what is sent is printable and bounded.
            change["error"] = {"message": lines(evidence(error)[0])[:ERROR_CHARS_MAX]}
        if claim is not None and claim.fence is not None:
            change |= {"fence": claim.fence, "claimId": claim.claim_id}
        return self._append(task_id, change)

    def pending(self) -> int:
        """How many local changes the server has not answered."""
        return len(self._journal.log())

    def conflicts(self) -> list[Refused]:
        """Local changes that the server did not take: the whole change, or its content when it accepted the
        status only. The server's state has replaced them. They stay until they are dismissed."""
        return self._journal.refusals()

    def dismiss(self, mutation_id: str | None = None) -> int:
        """Removes a refused change from `conflicts`, or all of them: its author has seen it. Returns how many
        there were. The conflict of the server, if there is one, stays open."""
        return self._journal.dismiss(mutation_id)

    def _append(self, task_id: str, change: Fields) -> str:
        check_name("task_id", task_id)
        replica = self._journal.replica(task_id)
        log = self._journal.log(task_id)
        if replica is None and not log:
            raise NotFound(f"task {task_id} is not here: create it, or sync first")
        if log:
            # Its author sees the earlier local changes: it is based on what they are based on.
            return self._write(task_id, log[-1].base_version, log[-1].base_hash, change)
        assert replica is not None
        return self._write(task_id, replica.version, replica.hash, change)

    def _write(self, task_id: str, version: int, hash: str | None, change: Fields) -> str:
        mutation_id = self._http.ids.secret()
        seen = self.get(task_id)
        mutation = Mutation(0, mutation_id, task_id, version, hash, change)
        check_mutation(mutation, None if seen is None else seen.fields)
        self._journal.append(mutation_id, task_id, version, hash, change)
        return mutation_id

    # -- with the server ---------------------------------------------------------------------------

    async def sync(self) -> SyncReport:
        """Reads what is new and pushes what was changed, until both sides agree. Calls follow one another."""
        async with self._syncing:
            await self._start.begun()
            # Before the ends of runs: they would be refused after them.
            refused = len(await self.reports.send(self._wire))
            exchange = Exchange(self._journal, self._wire, self.node_id, self._http.clock)
            report = await exchange.sync()
            report.refused += refused
            return report

    async def claim(self, task_id: str, lease_seconds: float = LEASE_SECONDS) -> Claim:
        """Locks a task for this node, and renews the lock until the claim ends. AlreadyLocked if another node
        has it, or this one. QueueFull if too many claims have not ended. Use it in `async with`."""
        check_name("task_id", task_id)
        check_number("lease_seconds", lease_seconds)
        before = self._claims.get(task_id)
        if task_id in self._claims and (before is None or before.is_held):
            raise AlreadyLocked(f"this node holds task {task_id} already: end that claim first")
        others = {claim.task_id for claim in self._journal.unended()} - {task_id}
        if len(others) >= CLAIMS_MAX:
            raise QueueFull(
                f"{CLAIMS_MAX} tasks of this node are claimed or wait for a connection: end some, or sync"
            )
        self._claims[task_id] = None
        try:
            held = self._to_claim(task_id, is_new=before is not None)
            options: Any = {"lease_seconds": lease_seconds, "clock": self._http.clock}
            claim = await Claim.take(self, self._wire, self._journal, held, **options)
        except BaseException:
            del self._claims[task_id]
            raise
        kept = {name: each for name, each in self._claims.items() if each is None or each.is_held}
        self._claims = kept | {task_id: claim}
        return claim

    def _to_claim(self, task_id: str, *, is_new: bool) -> HeldClaim:
        """What to ask for: the claim of an earlier process that has not ended, else a new one. The id is on
        the disk before it is sent: a repeat asks for the same claim."""
        held = {claim.task_id: claim for claim in self._journal.claims()}.get(task_id)
        if held is None or is_new:
            held = HeldClaim(task_id, self._http.ids.secret(), None)
            self._journal.keep_claim(held)
        return held

    @property
    def incarnation(self) -> int | None:
        """The number of this start. None: not registered yet."""
        return self._start.incarnation

    @property
    def lost(self) -> list[Fields]:
        """Claims of an earlier start that the server did not give back."""
        return self._start.lost

    @property
    def heartbeat_seconds(self) -> float:
        """How often a claim shows that the node lives."""
        return self._start.heartbeat_seconds

    def _lose(self, task_id: str, fence: int) -> None:
        """The server has ended this run."""
        claim = self._claims.get(task_id)
        if claim is not None and claim.fence == fence:
            claim.lose("expired")
        for held in self._journal.claims():
            if (held.task_id, held.fence) == (task_id, fence):
                self._journal.end_claim(held)


def _address(gateway: str | Sequence[str]) -> str:
    """The gateways as one text, checked."""
    text = gateway if isinstance(gateway, str) else ",".join(map(check_address, gateway))
    read_addresses(text)
    return text


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _content(
    payload: Any, metadata: dict[str, Any] | None, add: Sequence[str], remove: Sequence[str]
) -> Fields:
    change: Fields = {}
    if payload is not msgspec.UNSET:
        change["payload"] = payload
    if metadata:
        change["metadata"] = metadata
    if add or remove:
        change["labels"] = {"add": sorted(set(add)), "remove": sorted(set(remove))}
    return change
