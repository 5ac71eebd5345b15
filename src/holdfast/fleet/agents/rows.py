"""The rows that the agent protocol reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from holdfast.core.fleet.agents.facts import AgentStanding
from holdfast.core.fleet.agents.wire import AgentSync
from holdfast.core.fleet.model import SLOT, Agent, Execution, HostState, Job
from holdfast.core.lease import LeaseRow
from holdfast.core.node_identity import NodeState
from holdfast.fleet.rows import AGENTS, EXECUTIONS, JOBS
from holdfast.store.script import Script, call, call_rows, statements_of

_AGENT_COLUMNS: Final = len(Agent.__struct_fields__)


own: Final = statements_of("holdfast.fleet.agents")
"""Names the statements of this package."""


class AgentRow(NamedTuple):
    """An agent that this transaction has locked, with its node and its host."""

    agent: Agent
    incarnation: int
    node_state: NodeState
    host: str
    host_state: HostState
    host_returned_at: float | None

    def standing(self, slot: LeaseRow | None, now: float) -> AgentStanding:
        """What the rules judge by. A host without a row of its slot has never had an execution."""
        if slot is None:
            slot = LeaseRow(SLOT + self.agent.host_id)
        slot = replace(slot, clock_at=max(slot.clock_at, now))
        return AgentStanding(
            self.agent,
            self.node_state,
            self.incarnation,
            self.host,
            self.host_state,
            slot,
            self.host_returned_at,
        )


def lock_agents(ids: Collection[str]) -> Script[tuple[dict[str, AgentRow], dict[str, str]]]:
    """The agents, and those that another transaction holds: the host of each."""
    rows = yield call(own("lock_agents"), ids=sorted(ids))
    agents = {row[0]: _agent_row(row) for row in rows}
    missing = sorted(set(ids) - agents.keys())
    held = (yield call(own("hosts_of_agents"), ids=missing)) if missing else []
    return agents, {row[0]: row[1] for row in held}


def _agent_row(row: Sequence[Any]) -> AgentRow:
    incarnation, node_state, host, host_state, returned_at = row[_AGENT_COLUMNS:]
    agent = AGENTS.read(row[:_AGENT_COLUMNS])
    states = NodeState(node_state), host, HostState(host_state)
    return AgentRow(agent, incarnation, *states, returned_at)


def read_slots(hosts: Iterable[str], *, lock: bool) -> Script[dict[str, LeaseRow]]:
    """The slots by host. A host that never had an execution has none. `lock`: without those that another
    transaction holds."""
    resources = sorted(SLOT + host for host in hosts)
    rows = (
        (yield call(own("lock_slots" if lock else "read_slots"), resources=resources))
        if resources
        else []
    )
    return {row[0].removeprefix(SLOT): LeaseRow(*row) for row in rows}


def changed_slots(pairs: Iterable[tuple[LeaseRow, LeaseRow]], now: float) -> list[LeaseRow]:
    """The slots that are to be written, of pairs of before and after. One that is held is renewed in the
    second half of its time."""
    changed = []
    for before, after in pairs:
        is_late = after.claim_id is not None and after.expires_at - now < after.ttl_seconds / 2
        slot = replace(after, expires_at=now + after.ttl_seconds) if is_late else after
        if slot != before:
            changed.append(slot)
    return changed


def save_slots(slots: Sequence[LeaseRow], now: float) -> Script[None]:
    rows: list[tuple[Any, ...]] = [
        (
            slot.resource,
            slot.fence,
            slot.claim_id,
            slot.owner,
            slot.ttl_seconds,
            slot.granted_at,
            slot.expires_at,
            slot.free_at,
        )
        for slot in sorted(slots, key=lambda slot: slot.resource)
    ]
    if rows:
        yield call_rows(own("save_slots"), rows, now=now)


def _is_closed(agent: Agent, sync: AgentSync) -> int:
    """Whether the agent takes nothing, as its newest sync says."""
    return int(agent.is_closed if sync.seq < agent.seq else sync.capacity == 0)


def write_syncs(heard: Iterable[tuple[Agent, AgentSync]], now: float) -> Script[None]:
    """The newest sync of each agent."""
    rows: list[tuple[Any, ...]] = sorted(
        (agent.host_id, max(agent.seq, sync.seq), sync.block_epoch, _is_closed(agent, sync))
        for agent, sync in heard
    )
    if rows:
        yield call_rows(own("write_agents"), rows, now=now)


def read_runs(ids: Collection[str]) -> Script[dict[str, Execution]]:
    rows = (yield call(own("runs_of"), ids=sorted(ids))) if ids else []
    return {row[0]: EXECUTIONS.read(row) for row in rows}


def read_jobs(ids: Collection[str]) -> Script[dict[str, Job]]:
    rows = (yield call(own("jobs_of_runs"), ids=sorted(ids))) if ids else []
    return {row[0]: JOBS.read(row) for row in rows}


def write_runs(executions: Iterable[Execution]) -> Script[None]:
    rows: list[tuple[Any, ...]] = [
        (
            one.task_id,
            one.token,
            one.fence,
            one.taken_json,
            one.outcome,
            one.detail,
            one.exit_code,
            one.signal,
            one.output_json,
            one.late_json,
            one.go_at,
            one.block_id,
        )
        for one in executions
    ]
    if rows:
        yield call_rows(own("write_runs"), rows)
