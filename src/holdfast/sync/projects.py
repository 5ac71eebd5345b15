"""Use cases of projects: list, create, and the strategies of their conflicts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core import codec
from holdfast.core.check import check_choice
from holdfast.core.strategy import CONTENT, FieldClass, Strategy
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput
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

    async def put(
        self,
        project: str,
        by: By,
        *,
        strategy: str = Strategy.MERGE.value,
        overrides: Mapping[str, str] | None = None,
    ) -> ProjectRow:
        """Creates a project or changes its strategies."""
        check_project("project", project)
        by.of_unversioned("a project")
        chosen = check_choice("strategy", strategy, Strategy)
        classes = {
            check_choice("overrides", name, FieldClass): check_choice("overrides", value, Strategy)
            for name, value in (overrides or {}).items()
        }
        if wrong := sorted(classes.keys() - CONTENT):
            raise InvalidInput(f"overrides has '{wrong[0]}': no strategy applies to it")
        settings = {"strategies": {name.value: value.value for name, value in classes.items()}}

        def script(now: float) -> Script[ProjectRow]:
            yield from begin(by.beside, now)
            yield call(own("add_project"), id=project, now=now)
            yield from read_project(project, lock=True)
            yield call(
                own("set_strategy"),
                id=project,
                strategy=chosen.value,
                settings_json=codec.dumps(settings),
            )
            row = yield from read_project(project)
            yield from end(by.beside, row, now)
            return row

        return await self._store.run(lambda _dialect, _ids, now: script(now))
