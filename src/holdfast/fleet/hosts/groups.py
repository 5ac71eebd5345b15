"""Use cases of groups: named selectors that other selectors use as `@name`.

Promises: the groups of a project have no cycle, and none names a group that does not exist. Changes of groups
of a project happen one after the other: they lock the project before they read. A group that another group or
a block uses is not removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.core.check import check_name, check_page, shown
from holdfast.core.fleet.hosts.selector import Selector, check_groups, evaluate, parse
from holdfast.core.fleet.hosts.selector_parse import FACT, GROUP, GROUP_NAME
from holdfast.core.fleet.model import Group, Host
from holdfast.core.ids import Ids
from holdfast.core.wire import check_project, preview
from holdfast.errors import BatchTooLarge, Conflict, InvalidInput, NotFound
from holdfast.fleet.block_epoch import raise_epoch
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.rows import GROUPS, own
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store
from holdfast.sync.rows import event_of

GROUPS_MAX: Final = 1_000
"""Groups of a project."""
SELECTOR_BYTES_SHOWN: Final = 2_000
"""Of a selector in an event."""


class Groups:
    """The use cases of groups."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, project: str, name: str, selector: str, by: By) -> Group:
        """Conflict if the project has the group; BadSelector if the selector cannot be read."""
        by.of_unversioned("a new group")
        check_project("project", project)
        check_name("name", name)
        if GROUP_NAME.fullmatch(name) is None:
            raise InvalidInput(
                f"name {shown(name)} is no name of a group: use letters, digits, '_', '.', ':' and '-'"
            )
        parse(selector)
        return await self._store.run(
            partial(_write, project=project, name=name, selector=selector, is_new=True, by=by)
        )

    async def edit(self, project: str, name: str, selector: str, by: By) -> Group:
        """Gives a group another selector. NotFound if there is no such group."""
        parse(selector)
        return await self._store.run(
            partial(_write, project=project, name=name, selector=selector, is_new=False, by=by)
        )

    async def remove(self, project: str, name: str, by: By) -> Group:
        """Returns the group as it was. Conflict if another group or a block uses it."""
        return await self._store.run(partial(_remove, project=project, name=name, by=by))

    async def get(self, project: str, name: str) -> Group:
        groups = await self._store.read(lambda: read_groups(project))
        return _known(groups, name)

    async def memberships(self, project: str, hosts: Sequence[Host]) -> dict[str, list[str]]:
        """The names of the groups that each of these hosts is in, by its id. Groups that ask for facts see
        those of the given hosts."""
        selectors = await self._store.read(lambda: read_selectors(project))
        found: dict[str, list[str]] = {host.id: [] for host in hosts}
        for name in sorted(selectors):
            for host in evaluate(parse(f"@{name}"), hosts, selectors):
                found[host.id].append(name)
        return found

    async def list(self, project: str, *, after: str = "", limit: int = 100) -> list[Group]:
        """One page by name."""
        check_page(limit)

        def script() -> Script[list[Group]]:
            rows = yield call(own("list_groups"), project=project, after=after, limit=limit)
            return GROUPS.read_all(rows)

        return await self._store.read(script)


def read_groups(project: str) -> Script[dict[str, Group]]:
    groups = GROUPS.read_all((yield call(own("groups_of"), project=project)))
    return {group.name: group for group in groups}


def read_selectors(project: str) -> Script[dict[str, Selector]]:
    """The groups of a project, as selectors are evaluated with them."""
    return _selectors((yield from read_groups(project)))


def named_by(project: str, selectors: Iterable[str | None]) -> Script[dict[str, Selector]]:
    """The groups of a project, if one of these selectors may name a group. Without it they are not read."""
    if not any(selector and GROUP in selector for selector in selectors):
        return {}
    return (yield from read_selectors(project))


def select(
    project: str, text: str, *, whole: bool = False, only: str | None = None
) -> Script[list[Host]]:
    """The hosts of a project that a selector selects, by name. Unless they are asked for `whole`, they have
    facts only if a selector asks for facts. `only`: as if the project had no host but this one. BadSelector,
    or UnknownHost for a name without a host."""
    selector = parse(text)
    groups = yield from read_groups(project)
    asks = any(FACT in part for part in (text, *(g.selector for g in groups.values())))
    hosts = yield from host_scripts.inventory(project, with_facts=whole or asks)
    if only is not None:
        hosts = [host for host in hosts if host.id == only]
    return evaluate(selector, hosts, _selectors(groups))


def _selectors(groups: Mapping[str, Group]) -> dict[str, Selector]:
    return {name: parse(group.selector) for name, group in groups.items()}


def _known(groups: Mapping[str, Group], name: str) -> Group:
    if name not in groups:
        raise NotFound(f"there is no group '{name}': see the list of groups")
    return groups[name]


def _write(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    project: str,
    name: str,
    selector: str,
    is_new: bool,
    by: By,
) -> Script[Group]:
    yield from begin(by.beside, now)
    yield from raise_epoch(project, now)
    groups = yield from read_groups(project)
    if is_new and name in groups:
        raise Conflict(f"group '{name}' exists: edit it, or add one of another name")
    if is_new and len(groups) >= GROUPS_MAX:
        raise BatchTooLarge(f"project '{project}' has {GROUPS_MAX} groups: remove one first")
    if is_new:
        group = Group(project=project, name=name, selector=selector, created_at=now)
    else:
        before = _known(groups, name)
        host_scripts.check_version(f"group '{name}'", before.version, by.expected_version)
        group = replace(before, selector=selector, version=before.version + 1)
    check_groups(_selectors(groups | {name: group}))
    yield call_rows(own("write_group"), [GROUPS.row(group)])
    yield from end(by.beside, group, now)
    yield from _tell(
        dialect, ids, now, kind="group.added" if is_new else "group.changed", group=group, by=by
    )
    return group


def _remove(
    dialect: Dialect, ids: Ids, now: float, *, project: str, name: str, by: By
) -> Script[Group]:
    yield from begin(by.beside, now)
    yield from raise_epoch(project, now)
    groups = yield from read_groups(project)
    group = _known(groups, name)
    host_scripts.check_version(f"group '{name}'", group.version, by.expected_version)
    others = {f"group '{other}'": g.selector for other, g in groups.items() if other != name}
    blocks = yield call(own("selectors_of_blocks"), project=project)
    others |= {f"block {block_id}": selector for block_id, selector in blocks}
    for what, selector in others.items():
        if name in parse(selector).groups():
            raise Conflict(f"{what} uses group '{name}': change it first")
    yield call(own("delete_group"), project=project, name=name)
    yield from end(by.beside, group, now)
    yield from _tell(dialect, ids, now, kind="group.removed", group=group, by=by)
    return group


def _tell(
    dialect: Dialect, ids: Ids, now: float, *, kind: str, group: Group, by: By
) -> Script[None]:
    """A selector may be long: readers of the feed get its start."""
    work = Work(now)
    data = {
        "group": group.name,
        "selector": preview(group.selector, SELECTOR_BYTES_SHOWN),
        "version": group.version,
        "actor": by.actor,
        "reason": by.reason,
    }
    work.events.append(event_of(kind, now, group.project, data))
    yield from work.save(dialect, ids.record(now))
