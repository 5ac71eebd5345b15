"""Transactions of hosts.

Promises: the rows, their events and what a caller writes beside them (the audit) are one transaction. Hosts
are locked by id. A host that was removed keeps its row: added again under its name, it has its id back, so
the fence of its slot goes on, and neither facts nor agent: that may be another machine. A host that is
removed, returns or gets another driver ends its agent and the agent's credential; a removed one with a
command only when it returns. A change after which a block may match other hosts raises the epoch of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core import codec
from holdfast.core.event import NewEvent
from holdfast.core.fleet.hosts.entry import HostEntry, check_labels
from holdfast.core.fleet.model import HOST_PREFIX, SLOT, UNREAD, Host, HostDriver, HostState
from holdfast.core.ids import Ids
from holdfast.errors import BatchTooLarge, Conflict, NotFound, VersionConflict
from holdfast.fleet.block_epoch import raise_epoch
from holdfast.fleet.rows import HOSTS, own
from holdfast.fleet.starts import hold_starts
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect, Raced
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work
from holdfast.sync.rows import event_of

HOSTS_MAX: Final = 50_000
"""Hosts of a project."""
PAGE: Final = 5_000
"""Hosts that one statement reads of a whole inventory."""
IDS_PAGE: Final = 10_000
NO_FACTS: Final = "{}"


class Put(msgspec.Struct, frozen=True):
    """What became of entries. `hosts` are in their order."""

    hosts: list[Host]
    added: list[str] = []
    changed: list[str] = []

    @property
    def is_change(self) -> bool:
        return bool(self.added or self.changed)


class FoundHosts(msgspec.Struct, frozen=True):
    """Hosts by the names or ids that a caller gave."""

    hosts: dict[str, Host]
    unknown: list[str]
    """Those that no host has, in the order of the call."""


def add(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    project: str,
    entry: HostEntry,
    actor: str,
    reason: str,
    beside: Beside | None,
) -> Script[Host]:
    """Adds one host. Conflict if the project has it."""
    yield from begin(beside, now)
    there = yield from named(project, [entry.name])
    if there and there[0].state is not HostState.GONE:
        raise Conflict(f"host '{entry.name}' exists: edit it, or add one of another name")
    work = Work(now)
    done = yield from put(work, ids, project, [entry], actor=actor, reason=reason)
    [host] = done.hosts
    yield from end(beside, host, now)
    yield from work.save(dialect, ids.record(now))
    return host


def import_(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    project: str,
    entries: Sequence[HostEntry],
    actor: str,
    reason: str,
    beside: Beside | None,
) -> Script[Put]:
    """Adds or changes the hosts of one batch. Nothing is written beside a batch that changes nothing."""
    work = Work(now)
    done = yield from put(work, ids, project, entries, actor=actor, reason=reason)
    if done.is_change:
        yield from begin(beside, now)
        yield from end(beside, done, now)
    yield from work.save(dialect, ids.record(now))
    return done


def put(
    work: Work,
    ids: Ids,
    project: str,
    entries: Sequence[HostEntry],
    *,
    actor: str,
    reason: str = "",
) -> Script[Put]:
    """Brings the hosts of a project to what the entries say, with events in `work`. Each name is once in
    them. BatchTooLarge if the project would have too many hosts."""
    before = yield from lock([h.id for h in (yield from named(project, [e.name for e in entries]))])
    by_name = {host.name: host for host in before}
    hosts, new, written = [], [], []
    for entry in entries:
        old = by_name.get(entry.name)
        host = (
            _made(ids, project, entry, work.now) if old is None else _merged(old, entry, work.now)
        )
        hosts.append(host)
        if old is None:
            new.append(host)
        elif host != old:
            written.append((old, host))
    returned = [host for old, host in written if old.state is HostState.GONE]
    changed = [(old, host) for old, host in written if old.state is not HostState.GONE]
    yield from _check_room(project, len(new) + len(returned))
    yield from _insert(new)
    yield from _hold_starts(written)
    yield from _write([host for _, host in written])
    yield from write_facts([(host.id, host.facts_json) for host in returned])
    yield from _end_agents(written, work.now)
    work.events += [_added(host, actor, work.now, returned=False) for host in new]
    work.events += [_added(host, actor, work.now, returned=True) for host in returned]
    work.events += [_changed(old, host, actor, reason, work.now) for old, host in changed]
    yield from _note_blocks(project, written, bool(new), work.now)
    return Put(hosts, [h.name for h in (*new, *returned)], [host.name for _, host in changed])


def change(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    host_id: str,
    edit: HostEntry,
    merged_labels: dict[str, str | None] | None,
    expected_version: int | None,
    actor: str,
    reason: str,
    beside: Beside | None,
) -> Script[Host]:
    """Changes a host or, with the state `gone`, removes it. A change to what it is already has no effect.
    `merged_labels`: labels to set, or to remove (None)."""
    yield from begin(beside, now)
    rows = yield from lock([host_id])
    if not rows:
        raise missing(host_id)
    [old] = rows
    check_version(f"host '{old.name}'", old.version, expected_version)
    if old.state is HostState.GONE and edit.state != HostState.GONE.value:
        raise NotFound(f"host '{old.name}' was removed: add it again")
    if merged_labels is not None:
        merged = {**old.labels, **merged_labels}
        labels = {key: value for key, value in merged.items() if value is not None}
        check_labels(labels)
        edit = replace(edit, labels=labels)
    host = _merged(old, edit, now)
    work = Work(now)
    if host != old:
        yield from _hold_starts([(old, host)])
        yield from _write([host])
        yield from _end_agents([(old, host)], now)
        if host.state is HostState.GONE:
            data = {"host": host.id, "name": host.name, "actor": actor, "reason": reason}
            work.events.append(event_of("host.removed", now, host.project, data))
        else:
            work.events.append(_changed(old, host, actor, reason, now))
        yield from _note_blocks(host.project, [(old, host)], False, now)
    yield from end(beside, host, now)
    yield from work.save(dialect, ids.record(now))
    return host


def _hold_starts(written: Sequence[tuple[Host, Host]]) -> Script[None]:
    """A host that leaves service, or gets another driver, starts nothing after this commit."""
    if any((old.state, old.driver) != (host.state, host.driver) for old, host in written):
        yield from hold_starts()


def _end_agents(written: Sequence[tuple[Host, Host]], now: float) -> Script[None]:
    """Ends the agents, with their credentials, of hosts that may be other machines now, or have other
    drivers."""
    gone = [host.id for _, host in written if host.state is HostState.GONE]
    other = [
        host.id
        for old, host in written
        if host.state is not HostState.GONE
        and (old.state is HostState.GONE or old.driver is not host.driver)
    ]
    ended = list(other)
    if gone:
        rows = yield call(own("end_idle_agents"), ids=sorted(gone), prefix=SLOT)
        ended += [row[0] for row in rows]
    if other:
        yield call(own("end_agents"), ids=sorted(other))
    if ended:
        yield call(own("revoke_credentials"), ids=sorted(ended), now=now)


def named(project: str, names: Sequence[str]) -> Script[list[Host]]:
    """The hosts of these names, those that were removed too."""
    found: list[Host] = []
    for start in range(0, len(names), IDS_PAGE):
        some = list(names[start : start + IDS_PAGE])
        found += HOSTS.read_all((yield call(own("hosts_named"), project=project, names=some)))
    return found


def lock(ids: Iterable[str]) -> Script[list[Host]]:
    """Locks hosts in the order of their ids, before other rows of the fleet."""
    return HOSTS.read_all((yield call(own("lock_hosts"), ids=sorted(ids))))


def pinned(ids: Sequence[str], *, with_facts: bool = True) -> Script[dict[str, Host]]:
    """The hosts of these ids, those that were removed too."""
    found: list[Host] = []
    for start in range(0, len(ids), IDS_PAGE):
        some = list(ids[start : start + IDS_PAGE])
        if with_facts:
            rows = yield call(own("get_hosts"), ids=some)
        else:
            rows = yield call(own("get_hosts_without_facts"), ids=some, no_facts=UNREAD)
        found += HOSTS.read_all(rows)
    return {host.id: host for host in found}


def find(project: str, names: Sequence[str]) -> Script[FoundHosts]:
    """The hosts of a project that names or ids stand for. One that was removed is unknown."""
    asked = list(dict.fromkeys(names))
    by_name = {host.name: host for host in (yield from named(project, asked))}
    by_id = yield from pinned([name for name in asked if name not in by_name])
    hosts: dict[str, Host] = {}
    for name in asked:
        host = by_name.get(name) or by_id.get(name)
        if host is not None and host.project == project and host.state is not HostState.GONE:
            hosts[name] = host
    return FoundHosts(hosts, [name for name in asked if name not in hosts])


def inventory(project: str, *, with_facts: bool) -> Script[list[Host]]:
    """All hosts of a project by name, without those that were removed."""
    hosts: list[Host] = []
    after = ""
    while True:
        if with_facts:
            rows = yield call(own("list_hosts"), project=project, after=after, state=None, part=None,
                              limit=PAGE)  # fmt: skip
        else:
            rows = yield call(own("hosts_without_facts"), project=project, after=after, limit=PAGE,
                              no_facts=UNREAD)  # fmt: skip
        hosts += HOSTS.read_all(rows)
        if len(rows) < PAGE:
            return hosts
        after = hosts[-1].name


def page(
    project: str, *, state: str | None, part: str | None, after: str, limit: int
) -> Script[list[Host]]:
    rows = yield call(
        own("list_hosts"), project=project, after=after, state=state, part=part, limit=limit
    )
    return HOSTS.read_all(rows)


def write_facts(facts: Sequence[tuple[str, str]]) -> Script[None]:
    """(host id, JSON of its facts), as agents report them. The version of a host does not rise."""
    if facts:
        yield call_rows(own("write_facts"), list(facts))


def missing(name: str) -> NotFound:
    return NotFound(f"there is no host '{name}': see the list of hosts")


def check_version(what: str, version: int, expected: int | None) -> None:
    """VersionConflict unless the row has the version that the caller expects."""
    if expected not in (None, version):
        error = VersionConflict(f"{what} is at version {version}, not {expected}: read it again")
        error.current = {"version": version}
        raise error


def _made(ids: Ids, project: str, entry: HostEntry, now: float) -> Host:
    return Host(
        id=HOST_PREFIX + ids.task(now).replace("-", ""),
        project=project,
        name=entry.name,
        driver=HostDriver(entry.driver or HostDriver.AGENT),
        address=entry.address or "",
        labels_json=codec.dumps(entry.labels or {}),
        state=HostState(entry.state or HostState.ACTIVE),
        created_at=now,
        updated_at=now,
    )


def _merged(old: Host, entry: HostEntry, now: float) -> Host:
    """The host as the entry wants it; the same struct if it is so already. One that was removed starts with
    the defaults again."""
    if old.state is HostState.GONE and entry.state != HostState.GONE.value:
        blank = HostEntry(name=old.name, driver="agent", address="", labels={}, state="active")
        given = {name: value for name, value in asdict(entry).items() if value is not None}
        entry = replace(blank, **given)
        old = replace(old, facts_json=NO_FACTS, returned_at=now)
    host = replace(
        old,
        driver=old.driver if entry.driver is None else HostDriver(entry.driver),
        address=old.address if entry.address is None else entry.address,
        labels_json=old.labels_json if entry.labels is None else codec.dumps(entry.labels),
        state=old.state if entry.state is None else HostState(entry.state),
    )
    return old if host == old else replace(host, updated_at=now, version=old.version + 1)


def _check_room(project: str, more: int) -> Script[None]:
    if not more:
        return
    rows = yield call(own("count_hosts"), project=project)
    if rows[0][0] + more > HOSTS_MAX:
        raise BatchTooLarge(
            f"project '{project}' would have {rows[0][0] + more} hosts: at most {HOSTS_MAX} are allowed; "
            "remove some, or use another project"
        )


def _insert(hosts: Sequence[Host]) -> Script[None]:
    if not hosts:
        return
    added = yield call_rows(own("add_hosts"), [HOSTS.row(host) for host in hosts])
    if len(added) != len(hosts):
        raise Raced  # another transaction has added one of the hosts


def _write(hosts: Sequence[Host]) -> Script[None]:
    if hosts:
        yield call_rows(own("write_hosts"), [HOSTS.row(host) for host in hosts])


def _note_blocks(
    project: str, written: Sequence[tuple[Host, Host]], is_new: bool, now: float
) -> Script[None]:
    """Raises the epoch of the blocks if one of them may match other hosts now."""
    is_other = any(_selected_by(old) != _selected_by(host) for old, host in written)
    if (is_new or is_other) and (yield call(own("has_selector_blocks"), project=project)):
        yield from raise_epoch(project, now, forbids=is_other)


def _selected_by(host: Host) -> tuple[str, ...]:
    return (host.labels_json, host.driver.value, host.state.value)


def _added(host: Host, actor: str, now: float, *, returned: bool) -> NewEvent:
    data = {
        "host": host.id,
        "name": host.name,
        "driver": host.driver.value,
        "returned": returned,
        "actor": actor,
    }
    return event_of("host.added", now, host.project, data)


def _changed(old: Host, host: Host, actor: str, reason: str, now: float) -> NewEvent:
    fields = {"driver": "driver", "address": "address", "labels_json": "labels", "state": "state"}
    changed = [name for key, name in fields.items() if getattr(old, key) != getattr(host, key)]
    data = {
        "host": host.id,
        "name": host.name,
        "changed": changed,
        "state": host.state.value,
        "version": host.version,
        "actor": actor,
        "reason": reason,
    }
    return event_of("host.changed", now, host.project, data)


def note_reach(host_id: str, at: float | None) -> Script[None]:
    """When the host could not be reached. None: it was."""
    yield call(own("note_reach"), id=host_id, at=at)
