"""The values of secrets: looked up when a run is offered, in the environment of the server or in files.

Promises: a value is read from its source each time, so a rotated one counts at once; nothing stores it and
no error shows it. A job names the version that it was made with: a later version is another secret, and a
run that was approved with the earlier one gets none. The values that this process gave to runs are removed
from output; another server does not know them, and relies on the agent, which removes what it got.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core.errors import CommandRefused
from holdfast.core.fleet.commands.secrets import (
    SECRET_BYTES_MAX,
    SecretRef,
    SecretScope,
    check_value,
    out_of_scope,
    pinned,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import InvalidInput

NAMES_SHOWN: Final = 20
GIVEN_MAX: Final = 20
"""Values of a secret that a process remembers to remove from output: those that it gave last."""


class SecretSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the value of a secret is: exactly one of `env` and `file`."""

    env: str | None = None
    """A variable of the server's environment."""
    file: str | None = None
    """A file. The line end at its end is not part of the value."""
    version: int = 1
    """Raised with each change of the value."""
    projects: tuple[str, ...] | None = None
    """The projects whose jobs may name it. None: all projects."""
    command_types: tuple[str, ...] | None = None
    """The types of the commands that may have it. None: all types."""


class SecretValues:
    """The secrets of a server."""

    def __init__(
        self,
        sources: Mapping[str, SecretSource] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._sources = dict(sources or {})
        self._environ = os.environ if environ is None else environ
        self._given: dict[str, dict[str, None]] = {}
        """What runs have got, by name, the oldest first: their output may have it after the source or the
        version that the job names has changed."""

    @property
    def versions(self) -> dict[str, int]:
        """The version of each secret, by name."""
        return {name: source.version for name, source in self._sources.items()}

    @property
    def scopes(self) -> dict[str, SecretScope]:
        """The scope of each secret that has one, by name."""
        scopes = {
            name: SecretScope(source.projects, source.command_types)
            for name, source in self._sources.items()
        }
        return {name: scope for name, scope in scopes.items() if scope != SecretScope()}

    def rules(self, rules: FleetRules) -> FleetRules:
        """The rules with what there is to know of these secrets."""
        return replace(rules, secret_versions=self.versions, secret_scopes=self.scopes)

    def pin(self, refs: Mapping[str, SecretRef]) -> dict[str, SecretRef]:
        """The references with the versions that there are now. InvalidInput for a secret that does not exist,
        and for another version of one."""
        return pin(refs, self.versions)

    def environment(
        self, refs: Mapping[str, SecretRef], project: str, command_type: str
    ) -> dict[str, str]:
        """The variables of a run. CommandRefused if a secret is not there, has another version now, or is not
        for such a job."""
        refusal = out_of_scope(refs, self.scopes, project, command_type)
        if refusal is not None:
            raise CommandRefused(refusal)
        return {variable: self._value(ref) for variable, ref in refs.items()}

    def known(self, refs: Mapping[str, SecretRef]) -> list[str]:
        """The values to remove from output: what the source has now, and what runs have got, in whatever
        version."""
        values: dict[str, None] = {}
        for name in dict.fromkeys(ref.name for ref in refs.values()):
            values |= self._given.get(name, {})
            with contextlib.suppress(CommandRefused):
                values[self._read(name)] = None
        return list(values)

    def _value(self, ref: SecretRef) -> str:
        source = self._sources.get(ref.name)
        if source is not None and ref.version not in (None, source.version):
            raise CommandRefused(
                f"secret '{ref.name}' has version {source.version} now, and the job was made with "
                f"{ref.version}: make the job again"
            )
        value = self._read(ref.name)
        given = self._given.setdefault(ref.name, {})
        given.pop(value, None)
        given[value] = None
        if len(given) > GIVEN_MAX:
            del given[next(iter(given))]
        return value

    def _read(self, name: str) -> str:
        source = self._sources.get(name)
        if source is None:
            raise CommandRefused(f"the server has no secret '{name}' any more")
        text = self._environ.get(source.env) if source.env is not None else _content(source.file)
        if text is None:
            raise CommandRefused(f"the value of secret '{name}' cannot be read")
        try:
            return check_value(text)
        except InvalidInput as error:
            raise CommandRefused(f"secret '{name}': {error}") from None


def pin(refs: Mapping[str, SecretRef], newest: Mapping[str, int]) -> dict[str, SecretRef]:
    """The references with their versions. InvalidInput for a secret that does not exist, and for another
    version of one."""
    found, missing = pinned(refs, newest)
    if missing:
        known = ", ".join(sorted(newest)[:NAMES_SHOWN]) or "none"
        raise InvalidInput(
            f"secrets names '{missing[0]}', which the server does not have: it has {known}"
        )
    for variable, ref in found.items():
        if ref.version != newest[ref.name]:
            raise InvalidInput(
                f"secrets.{variable}.version is {ref.version}: '{ref.name}' has the version "
                f"{newest[ref.name]}"
            )
    return found


def _content(path: str | None) -> str | None:
    """None if the file cannot be read. The error would show the path."""
    try:
        with Path(path or "").open("rb") as file:
            return file.read(SECRET_BYTES_MAX + 3).decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError):
        return None
