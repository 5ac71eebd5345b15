"""Use cases of presets: list, keep under a name, remove."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.core.preset import (
    PRESETS_MAX,
    PresetKind,
    check_body,
    check_kind,
    check_preset_name,
)
from holdfast.errors import Conflict, NotFound, VersionConflict
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.rows import own


class Preset(msgspec.Struct, frozen=True):
    """A search or a command under a name."""

    project: str
    kind: str
    name: str
    body_json: str
    changed_by: str
    changed_at: float
    version: int


class Presets:
    """The use cases of presets."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self, kind: str, *, projects: Collection[str] | None = None) -> list[Preset]:
        """Those of a kind by project and name, at most `PRESETS_MAX` of each project. None: all projects."""
        wanted = check_kind(kind)

        def script() -> Script[list[Preset]]:
            return [Preset(*row) for row in (yield call(own("presets"), kind=wanted.value))]

        rows = await self._store.read(script)
        return [row for row in rows if projects is None or row.project in projects]

    async def put(
        self, project: str, kind: str, name: str, body: Mapping[str, object], by: By
    ) -> Preset:
        """Keeps a body under the name, in place of the one before. Version 0 expects that there is none."""
        wanted, text = check_kind(kind), check_body(check_kind(kind), body)
        check_preset_name(name)

        def script(now: float) -> Script[Preset]:
            yield from begin(by.beside, now)
            before = yield from _locked(project, wanted, name)
            _check_version(before, by, name)
            if before is None:
                yield from _check_count(project, wanted)
            made = Preset(project, wanted.value, name, text, by.actor, now, _version(before) + 1)
            if not (yield call(own("put_preset"), **msgspec.structs.asdict(made))):
                raise VersionConflict(f"preset '{name}' was changed meanwhile: look again")
            yield from end(by.beside, made, now)
            return made

        return await self._store.run(lambda _dialect, _ids, now: script(now))

    async def remove(self, project: str, kind: str, name: str, by: By) -> Preset:
        """Removes it. NotFound if there is none."""
        wanted = check_kind(kind)

        def script(now: float) -> Script[Preset]:
            yield from begin(by.beside, now)
            before = yield from _locked(project, wanted, name)
            if before is None:
                raise NotFound(f"there is no {wanted.value} '{name}' in project '{project}'")
            _check_version(before, by, name)
            yield call(own("remove_preset"), project=project, kind=wanted.value, name=name)
            yield from end(by.beside, before, now)
            return before

        return await self._store.run(lambda _dialect, _ids, now: script(now))


def _locked(project: str, kind: PresetKind, name: str) -> Script[Preset | None]:
    rows = yield call(own("lock_preset"), project=project, kind=kind.value, name=name)
    return Preset(*rows[0]) if rows else None


def _version(of: Preset | None) -> int:
    return 0 if of is None else of.version


def _check_version(before: Preset | None, by: By, name: str) -> None:
    if by.expected_version not in (None, _version(before)):
        text = f"is at version {_version(before)}, not {by.expected_version}"
        raise VersionConflict(f"preset '{name}' {text}")


def _check_count(project: str, kind: PresetKind) -> Script[None]:
    [row] = yield call(own("count_presets"), project=project, kind=kind.value)
    if row[0] >= PRESETS_MAX:
        raise Conflict(
            f"project '{project}' has {PRESETS_MAX} presets of kind {kind.value}: remove one first"
        )
