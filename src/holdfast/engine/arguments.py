"""The arguments of a function by its annotations: what an enqueue checks and writes, and what a run reads.

Promises: annotations are examined once, when the task is defined, or at the first use if a name in them did
not exist then. A function whose arguments are all JSON is called with the payload as it is. A value that
cannot make the trip is refused with the name of its argument. Never: calls the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import GenericAlias, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from holdfast.core.check import shown
from holdfast.core.codec import plain
from holdfast.core.command import Cancel, Snooze
from holdfast.engine.declared import (
    SCALARS,
    Declared,
    Misfit,
    Needs,
    is_plain,
    is_same,
    needs_of,
)
from holdfast.engine.retry_choice import Retry
from holdfast.errors import InvalidInput, UnserialisablePayload

ENDS: Final = (Snooze, Cancel, Retry)


class ArgumentsRefused(Exception):
    """A stored payload that the function cannot be called with. Another attempt would end alike."""


def resolved(function: Callable[..., Any], annotation: Any) -> Any:
    """The annotation as an object. The text itself if it cannot be evaluated."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))
    except Exception:
        return annotation


class Arguments:
    """The declared arguments of one function."""

    __slots__ = (
        "_annotations",
        "_checked",
        "_checked_list",
        "_function",
        "_has_loose",
        "_looked_at",
        "_type",
        "reads",
    )

    def __init__(
        self, task_type: str, function: Callable[..., Any], signature: inspect.Signature
    ) -> None:
        """`signature` is without the context."""
        self._type = task_type
        self._function = function
        self._annotations: dict[str, Any] = {
            name: Any if parameter.annotation is parameter.empty else parameter.annotation
            for name, parameter in signature.parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        }
        self._has_loose = len(self._annotations) < len(signature.parameters)
        """Whether some arguments may be any value."""
        self.reads: dict[str, Declared] | None = None
        """The arguments that a run converts. None: not examined yet."""
        self._looked_at: frozenset[str] = frozenset()
        self._checked: type[msgspec.Struct] | None = None
        self._checked_list: Any = None
        """The type of a list of them."""
        kinds = {name: resolved(function, kind) for name, kind in self._annotations.items()}
        if not any(isinstance(kind, str) for kind in kinds.values()):
            self._examine(kinds)

    def _examine(self, kinds: Mapping[str, Any]) -> dict[str, Declared]:
        reads, looked_at, builtin = {}, [], []
        for name, kind in kinds.items():
            needs = Needs.UNKNOWN if isinstance(kind, str) else needs_of(kind)
            if Needs.UNKNOWN in needs:
                looked_at.append(name)
            elif Needs.CONVERSION in needs:
                reads[name] = Declared(kind)
            else:
                builtin.append((name, kind, msgspec.UNSET))
                if needs:
                    looked_at.append(name)
        builtin = [field for field in builtin if field[1] not in (Any, object)]
        self._checked = msgspec.defstruct("arguments", builtin) if builtin else None
        self._checked_list = None if self._checked is None else GenericAlias(list, self._checked)
        self._looked_at = frozenset(looked_at)
        self._has_loose = self._has_loose or bool(looked_at)
        self.reads = reads
        return reads

    def _examined(self) -> dict[str, Declared]:
        """At the first use, all names of the module exist."""
        kinds = {name: resolved(self._function, kind) for name, kind in self._annotations.items()}
        return self._examine(kinds)

    def written(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload to store. The same object if nothing needs a conversion."""
        reads = self.reads if self.reads is not None else self._examined()
        if self._checked is not None:
            try:
                made = msgspec.convert(payload, self._checked)
            except (msgspec.ValidationError, RecursionError):
                self._check_one_by_one(payload)
            else:
                if not SCALARS.issuperset(map(type, payload.values())):
                    self._compare(made, payload)
        if self._has_loose and not SCALARS.issuperset(map(type, payload.values())):
            for name, value in payload.items():
                if name in self._looked_at or name not in self._annotations:
                    self._look(name, value)
        if not reads:
            return payload
        wire = dict(payload)
        for name, declared in reads.items():
            if name in wire:
                try:
                    wire[name] = declared.write(wire[name])
                except Misfit as misfit:
                    raise self._misfit(name, wire[name], str(misfit)) from None
        return wire

    def are_stored_as_given(self, payloads: Sequence[dict[str, Any]]) -> bool:
        """Whether `written` certainly returns each of these payloads as it is."""
        if self.reads is None or self.reads:
            return False
        kinds = set(map(type, chain.from_iterable(map(dict.values, payloads))))
        if not SCALARS.issuperset(kinds):
            return False
        if self._checked_list is not None:
            try:
                msgspec.convert(payloads, self._checked_list)
            except (msgspec.ValidationError, RecursionError):
                return False
        return True

    def read(self, arguments: dict[str, Any]) -> None:
        """Converts the arguments of a run in place."""
        reads = self.reads if self.reads is not None else self._examined()
        for name, declared in reads.items():
            if name in arguments:
                try:
                    arguments[name] = declared.read(arguments[name])
                except Misfit as misfit:
                    raise ArgumentsRefused(
                        f"argument '{name}' of task '{self._type}' is {shown(arguments[name])}: {misfit}; "
                        "edit the payload and replay the task"
                    ) from None

    def _check_one_by_one(self, payload: dict[str, Any]) -> None:
        """Finds the argument that does not fit. Subclasses of text and numbers fit their base."""
        assert self._checked is not None
        for name in self._checked.__struct_fields__:
            if name not in payload:
                continue
            value = payload[name]
            try:
                given = msgspec.to_builtins(value, enc_hook=plain) if is_plain(value) else value
                msgspec.convert({name: given}, self._checked)
            except (msgspec.ValidationError, TypeError, RecursionError) as error:
                self._look(name, value)
                why = str(error).replace(f" - at `$.{name}`", "").replace(f"$.{name}", "$")
                raise self._misfit(name, value, why) from None

    def _compare(self, made: msgspec.Struct, payload: dict[str, Any]) -> None:
        """Refuses what fits a declared type, and is written as another: a Decimal for a `float`."""
        for name in made.__struct_fields__:
            value = payload.get(name)
            if value is None or is_plain(value):
                continue
            wire = msgspec.to_builtins(value, enc_hook=plain)
            if not is_same(getattr(made, name), wire):
                raise self._misfit(name, value, f"it would arrive as {wire!r:.200}")

    def _look(self, name: str, value: object) -> None:
        if is_plain(value):
            return
        kind = resolved(self._function, self._annotations.get(name, Any))
        if kind in (Any, object):
            why = "which would not arrive as it is: annotate the parameter with its type"
        elif name in self._looked_at:
            why = f"and its annotation `{_as_written(kind)}` is no type that travels: declare one that does"
        else:
            why = (
                f"and its annotation is `{_as_written(kind)}`: annotate the parameter with its type"
            )
        raise UnserialisablePayload(
            f"argument '{name}' of task '{self._type}' is {shown(value)}, {why}, or pass plain values, lists "
            "and dicts (docs/reference/arguments.md)"
        )

    def _misfit(self, name: str, value: object, why: str) -> InvalidInput:
        return InvalidInput(f"argument '{name}' of task '{self._type}' is {shown(value)}: {why}")


def _as_written(kind: Any) -> str:
    """The annotation as text."""
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def declared_result(function: Callable[..., Any], annotation: Any) -> Declared | None:
    """The type of the function's result, if it needs a conversion. `Snooze`, `Cancel` and `Retry` are no
    results."""
    kind = resolved(function, annotation)
    if kind is inspect.Signature.empty or isinstance(kind, str):
        return None
    kind = without_ends(kind)
    needs = needs_of(kind)
    if Needs.CONVERSION not in needs or Needs.UNKNOWN in needs:
        return None
    return Declared(kind)


def without_ends(kind: Any) -> Any:
    """The annotation without `Snooze`, `Cancel` and `Retry`."""
    if get_origin(kind) is Annotated:
        return without_ends(get_args(kind)[0])
    if get_origin(kind) not in (Union, UnionType):
        return None if kind in ENDS else kind
    rest = tuple(part for part in get_args(kind) if part not in ENDS)
    return Union[rest] if rest else None  # noqa: UP007 - made at run time
