"""Use cases of projects: list, create, and the strategies of their conflicts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core import codec
from holdfast.core.check import check_choice
from holdfast.core.exchange.strategy import CONTENT, FieldClass, Strategy
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import check_project
from holdfast.errors import Conflict, InvalidInput, NotFound, VersionConflict
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.rows import ProjectRow, own, read_project


class ProjectView(msgspec.Struct, frozen=True):
    id: str
    clock: int
    strategy: str
    settings_json: str
    created_at: float
    version: int


class Projects:
    """The use cases of projects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self) -> list[ProjectView]:
        def script() -> Script[list[ProjectView]]:
            return [ProjectView(*row) for row in (yield call(own("projects")))]

        return await self._store.read(script)

    async def get(self, project: str) -> ProjectRow:
        """A project that has no row yet has the defaults."""
        check_project("project", project)
        return await self._store.read(lambda: read_project(project))

    async def create(
        self,
        project: str,
        by: By,
        *,
        strategy: str = Strategy.MERGE.value,
        overrides: Mapping[str, str] | None = None,
    ) -> ProjectRow:
        """Creates a project. Conflict if it exists."""
        by.of_unversioned("a new project")
        return await self._write(project, by, strategy, overrides or {}, is_new=True)

    async def put(
        self,
        project: str,
        by: By,
        *,
        strategy: str | None = None,
        overrides: Mapping[str, str] | None = None,
        must_exist: bool = False,
    ) -> ProjectRow:
        """Creates a project or changes its strategies. None leaves a setting as it is. With `must_exist`,
        NotFound for a project that is not there; the default project always is."""
        is_known = not must_exist or project == DEFAULT_PROJECT
        return await self._write(
            project, by, strategy, overrides, is_new=False, must_exist=not is_known
        )

    async def _write(
        self,
        project: str,
        by: By,
        strategy: str | None,
        overrides: Mapping[str, str] | None,
        *,
        is_new: bool,
        must_exist: bool = False,
    ) -> ProjectRow:
        check_project("project", project)
        chosen = None if strategy is None else check_choice("strategy", strategy, Strategy).value
        settings = None if overrides is None else _settings(overrides)

        def script(now: float) -> Script[ProjectRow]:
            yield from begin(by.beside, now)
            is_there = bool((yield call(own("get_project"), id=project)))
            if is_new and is_there:
                raise Conflict(f"project '{project}' exists: change its settings")
            if must_exist and not is_there:
                raise NotFound(
                    f"there is no project '{project}': check the name, or create it with `holdfast project "
                    f"create {project}`"
                )
            yield call(own("add_project"), id=project, now=now)
            before = yield from read_project(project, lock=True)
            if by.expected_version not in (None, before.version):
                text = f"is at version {before.version}, not {by.expected_version}"
                raise VersionConflict(f"project '{project}' {text}")
            yield call(
                own("set_strategy"),
                id=project,
                strategy=before.strategy if chosen is None else chosen,
                settings_json=before.settings_json if settings is None else codec.dumps(settings),
            )
            row = yield from read_project(project)
            yield from end(by.beside, row, now)
            return row

        return await self._store.run(lambda _dialect, _ids, now: script(now))


def _settings(overrides: Mapping[str, str]) -> dict[str, dict[str, str]]:
    classes = {
        check_choice("overrides", name, FieldClass): check_choice("overrides", value, Strategy)
        for name, value in overrides.items()
    }
    if wrong := sorted(classes.keys() - CONTENT):
        raise InvalidInput(f"overrides has '{wrong[0]}': no strategy applies to it")
    return {"strategies": {name.value: value.value for name, value in classes.items()}}
