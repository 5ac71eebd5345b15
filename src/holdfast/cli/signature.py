"""The options of a command, read from the signature of its function.

Promises: what the parser accepts, this names: options that commands share are in the list of each of them.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from cyclopts import Parameter


class Option(NamedTuple):
    """One option, as it is typed."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    """The values that it takes. Empty: any."""
    is_flag: bool


def options_of(function: Callable[..., Any]) -> list[Option]:
    """The options of a command, in the order of its signature."""
    kinds = inspect.signature(function).parameters
    named = [name for name, each in kinds.items() if each.kind is each.KEYWORD_ONLY]
    hints = get_type_hints(function, include_extras=True)
    return [option for name in named for option in _options(name, hints[name])]


def shared_options(kind: type) -> list[Option]:
    """The options that a class of shared options stands for."""
    return list(_options("", kind))


def choices_of_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """The values that the arguments of a command take, if they are from a list."""
    kinds = inspect.signature(function).parameters
    named = [name for name, each in kinds.items() if each.kind is not each.KEYWORD_ONLY]
    hints = get_type_hints(function, include_extras=True)
    return tuple(choice for name in named for choice in _choices(_plain(hints[name])[0]))


def _options(name: str, hint: Any) -> Iterator[Option]:
    kind, given = _plain(hint)
    if dataclasses.is_dataclass(kind):
        for field, inner in get_type_hints(kind, include_extras=True).items():
            yield from _options(field, inner)
        return
    names = [each for parameter in given for each in (parameter.name or ())]
    helps = [parameter.help for parameter in given if parameter.help]
    shown = tuple(names) or ("--" + name.strip("_").replace("_", "-"),)
    yield Option(shown, helps[0] if helps else "", _choices(kind), kind is bool)


def _plain(hint: Any) -> tuple[Any, list[Parameter]]:
    """The type without None, and what its annotations say."""
    given: list[Parameter] = []
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            hint, *extras = get_args(hint)
            given += [each for each in extras if isinstance(each, Parameter)]
        elif origin in (UnionType, Union):
            kinds = [each for each in get_args(hint) if each is not NoneType]
            if len(kinds) != 1:
                return hint, given
            hint = kinds[0]
        else:
            return hint, given


def _choices(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(each.value) for each in kind)
    return ()
