"""Use cases of hosts: add, edit, remove, list, import, find.

Promises: names are unique in a project. A host that was removed is unknown until it is added again; then it
has its id back. Every change has an event and, through `By.beside`, its audit row in the same transaction.
Never: follows a change of labels in a job that was made before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from holdfast.core.check import check_choice, check_name, check_page
from holdfast.core.fleet.hosts.entry import (
    LABEL_CHARS_MAX,
    HostEntry,
    check_entry,
    check_fields,
    check_label_key,
    check_labels,
)
from holdfast.core.fleet.model import Host, HostState
from holdfast.core.wire import check_project
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.fleet.hosts import scripts
from holdfast.fleet.hosts.groups import select
from holdfast.fleet.hosts.scripts import FoundHosts, Put
from holdfast.queue.by import By
from holdfast.store.store import Store

IMPORT_BATCH: Final = 500
"""Hosts that one transaction of an import writes."""
ERRORS_MAX: Final = 100
"""Errors that the answer to an import names."""


class ImportProblem(msgspec.Struct, frozen=True):
    """An entry that was not imported."""

    nth: int
    """Its place in the list, from 0."""
    name: str
    message: str


class Imported(msgspec.Struct, frozen=True):
    """What became of an import."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    errors: list[ImportProblem] = []
    """The first `ERRORS_MAX`."""
    failed: int = 0
    """How many entries were not imported."""


class Hosts:
    """The use cases of hosts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, project: str, entry: HostEntry, by: By) -> Host:
        """Conflict if the project has the host."""
        by.of_unversioned("a new host")
        check_project("project", project)
        check_entry(entry)
        script = partial(
            scripts.add,
            project=project,
            entry=entry,
            actor=by.actor,
            reason=by.reason,
            beside=by.beside,
        )
        return await self._store.run(script)

    async def edit(
        self,
        host_id: str,
        by: By,
        *,
        labels: Mapping[str, str | None] | None = None,
        address: str | None = None,
        driver: str | None = None,
        state: str | None = None,
    ) -> Host:
        """Changes fields of a host. None leaves a field as it is; a label of None is removed. NotFound if
        there is no such host, VersionConflict unless it has the expected version."""
        given = {key: value for key, value in (labels or {}).items() if value is not None}
        check_labels(given)
        for key in labels or {}:
            check_label_key(key)
        edit = HostEntry(name=host_id, driver=driver, address=address, state=state)
        check_fields(edit)
        return await self._change(host_id, edit, by, None if labels is None else dict(labels))

    async def remove(self, host_id: str, by: By) -> Host:
        """The host is unknown from now on. Executions that run on it go on. A second call changes nothing."""
        gone = HostEntry(name=host_id, state=HostState.GONE.value)
        return await self._change(host_id, gone, by, None)

    async def _change(
        self, host_id: str, edit: HostEntry, by: By, labels: dict[str, str | None] | None
    ) -> Host:
        return await self._store.run(
            partial(
                scripts.change,
                host_id=host_id,
                edit=edit,
                merged_labels=labels,
                expected_version=by.expected_version,
                actor=by.actor,
                reason=by.reason,
                beside=by.beside,
            )
        )

    async def get(self, project: str, name: str) -> Host:
        """The host of a name or an id. NotFound if the project has none."""
        found = await self.find(project, [name])
        if found.unknown:
            raise scripts.missing(name)
        return found.hosts[name]

    async def by_id(self, host_id: str) -> Host:
        """The host of an id, whatever its project and state. NotFound if there is none."""
        found = await self.pinned([host_id])
        if host_id not in found:
            raise scripts.missing(host_id)
        return found[host_id]

    async def find(self, project: str, names: Sequence[str]) -> FoundHosts:
        """The hosts that names or ids stand for, and those that no host has."""
        return await self._store.read(lambda: scripts.find(project, names))

    async def pinned(self, ids: Sequence[str]) -> dict[str, Host]:
        """The hosts of these ids, also those that were removed since."""
        return await self._store.read(lambda: scripts.pinned(ids))

    async def select(self, project: str, selector: str, *, only: str | None = None) -> list[Host]:
        """The hosts that a selector selects, by name. They have facts only if the selector or a group asks
        for facts. `only`: for one who may know this host only. BadSelector if it cannot be read, UnknownHost
        for a name that no host has."""
        return await self._store.read(lambda: select(project, selector, only=only))

    async def list(
        self,
        project: str,
        *,
        selector: str | None = None,
        state: str | None = None,
        part: str | None = None,
        after: str = "",
        limit: int = 100,
        only: str | None = None,
    ) -> list[Host]:
        """One page by name. `part`: text that the names contain. `state`: only these, e.g. those that were
        removed (`gone`), which are left out otherwise. `after`: the last name of the page before. A
        `selector` stands alone, and is read as if the project had no host but `only`, if that is given."""
        check_page(limit)
        if selector is not None:
            if state is not None or part is not None:
                raise InvalidInput("selector stands alone: put state=... and name~... into it")
            found = [
                host
                for host in await self.select(project, selector, only=only)
                if host.name > after
            ]
            ids = [host.id for host in found[:limit]]
            hosts = await self.pinned(ids)
            return [hosts[id] for id in ids if id in hosts]
        if state is not None:
            state = check_choice("state", state, HostState).value
        if part is not None:
            check_name("q", part)
        return await self._store.read(
            lambda: scripts.page(project, state=state, part=part, after=after, limit=limit)
        )

    async def import_(self, project: str, entries: Sequence[HostEntry], by: By) -> Imported:
        """Adds and changes many hosts, `IMPORT_BATCH` in each transaction. What `by` writes beside is written
        with each batch that changes something. An entry that is wrong is named in the answer; the others are
        imported. Repeated, it changes nothing."""
        by.of_unversioned("an import")
        check_project("project", project)
        if len(entries) > scripts.HOSTS_MAX:
            raise BatchTooLarge(
                f"the import has {len(entries)} hosts: at most {scripts.HOSTS_MAX} are allowed"
            )
        right, errors = _checked(entries)
        added = changed = 0
        for start in range(0, len(right), IMPORT_BATCH):
            done = await self._import_batch(project, right[start : start + IMPORT_BATCH], by)
            added += len(done.added)
            changed += len(done.changed)
        return Imported(
            added, changed, len(right) - added - changed, errors[:ERRORS_MAX], len(errors)
        )

    async def _import_batch(self, project: str, entries: Sequence[HostEntry], by: By) -> Put:
        script = partial(
            scripts.import_,
            project=project,
            entries=entries,
            actor=by.actor,
            reason=by.reason,
            beside=by.beside,
        )
        return await self._store.run(script)


def _checked(entries: Sequence[HostEntry]) -> tuple[list[HostEntry], list[ImportProblem]]:
    """The entries that can be imported, and why the others cannot."""
    right: dict[str, HostEntry] = {}
    errors: list[ImportProblem] = []
    for nth, entry in enumerate(entries):
        try:
            check_entry(entry)
            if entry.name in right:
                raise InvalidInput(f"host '{entry.name}' is in the import twice: leave one out")
            right[entry.name] = entry
        except InvalidInput as error:
            errors.append(ImportProblem(nth, str(entry.name)[:LABEL_CHARS_MAX], str(error)))
    return list(right.values()), errors
