"""Puts the tasks of groups in the place of `group:ID` among the dependencies of a task.

Promises: raises NotFound for a group that its project does not have. Never: judges a dependency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.check import check_name
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.group import GROUP
from holdfast.core.keywords import DependsOn, ManyTasks
from holdfast.errors import NotFound
from holdfast.store.store import Store


async def with_members(store: Store, depends_on: DependsOn, project: str) -> DependsOn:
    """The dependencies with the tasks of groups in the place of `group:ID`. NotFound if the project has no
    such group."""
    if isinstance(depends_on, str) or not isinstance(depends_on, Iterable):
        return depends_on  # It is refused later.
    given = list(depends_on)
    if not any(isinstance(each, str) and each.startswith(GROUP) for each in given):
        return depends_on if isinstance(depends_on, Mapping) else given
    edges: list[str | Edge | ManyTasks] = []
    for each in given:
        name, policy = each, DependencyPolicy.FAIL.value
        if isinstance(depends_on, Mapping):
            policy = depends_on[str(each)]
        elif isinstance(each, Edge):
            name, policy = each.parent_id, each.policy
        if not isinstance(name, str):
            edges.append(name)
            continue
        names = await _members(store, name, project) if name.startswith(GROUP) else (name,)
        edges += [Edge(task_id, DependencyPolicy(policy)) for task_id in names]
    return edges


async def _members(store: Store, name: str, project: str) -> list[str]:
    group_id = check_name("group", name.removeprefix(GROUP))
    is_ours = await store.groups.project(group_id) == project
    members = await store.groups.members(group_id) if is_ours else []
    if not members:
        raise NotFound(f"task group {group_id} does not exist: its tasks may have been pruned")
    return [task_id for _, task_id in members]
