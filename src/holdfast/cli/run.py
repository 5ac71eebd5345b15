"""Runs one verb: parses its arguments by its signature, and turns its result into an exit code."""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cyclopts import App, Parameter

from holdfast.cli.problem import Usage
from holdfast.cli.signature import Option, options_of
from holdfast.cli.values import STDIN
from holdfast.cli.verb import Verb
from holdfast.config import PREFERENCES, find_preference
from holdfast.errors import BadConfig, MissingExtra

TAKE_COMMANDS: Final = ("run", "rehearse")
"""Verbs that take a command for hosts, which may follow `--`."""


def run(verb: Verb, tokens: list[str]) -> int:
    """Raises the errors of the command; CycloptsError for bad usage."""
    app = App(
        name=f"holdfast {verb.path}",
        version_flags=(),
        help=described(load(verb)),
        help_epilogue=_examples(verb),
        help_format="plaintext",
        default_parameter=Parameter(show_default=_worth_showing),
        result_action="return_value",
    )
    app.default(load(verb))
    app["--help"].show = False
    _refuse_gateway(verb, tokens)
    if verb.path in TAKE_COMMANDS:
        tokens = joined_command(tokens)
    tokens = with_preferences(tokens, options_of(load(verb)))
    plain = [STDIN if token == "-" else token for token in tokens]
    code = app(plain, exit_on_error=False, print_error=False)
    return code if isinstance(code, int) else 0


def joined_command(tokens: list[str]) -> list[str]:
    """The command line with the words after `--` as one argument, quoted for a shell. One word stays as it
    is."""
    if "--" not in tokens:
        return tokens
    at = tokens.index("--") + 1
    words = tokens[at:]
    return [*tokens[:at], shlex.join(words)] if len(words) > 1 else tokens


def with_preferences(tokens: list[str], options: list[Option]) -> list[str]:
    """The command line with the options that the environment or the file sets, unless they are typed."""
    added: list[str] = []
    for option in options:
        name = max(option.names, key=len)
        if name.removeprefix("--") not in PREFERENCES or _is_typed(option, tokens):
            continue
        found = find_preference(name.removeprefix("--"), os.environ, Path.cwd())
        if found is None:
            continue
        if found.value not in option.choices:
            known = ", ".join(option.choices)
            raise BadConfig(f"{found.origin}: {name} is '{found.value}': use one of {known}")
        added += [name, found.value]
    return [*added, *tokens]


def _is_typed(option: Option, tokens: list[str]) -> bool:
    return any(
        token.partition("=")[0] == name or (len(name) == 2 and token.startswith(name))
        for token in tokens
        for name in option.names
    )


def _refuse_gateway(verb: Verb, tokens: list[str]) -> None:
    """Raises Usage for `--gateway` with a command that has no use for it."""
    named = [token for token in tokens if token == "--gateway" or token.startswith("--gateway=")]
    if verb.local and named:
        raise Usage(f"holdfast {verb.path} does not go through a gateway: {verb.local}")


def load(verb: Verb) -> Callable[..., Any]:
    """The function of a verb."""
    module, _, name = verb.place.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise MissingExtra(
            f"`holdfast {verb.path}` needs httpx2: pip install 'holdfast[client]'"
        ) from None
    return function


def described(function: Callable[..., Any]) -> str:
    """The docstring with its paragraphs in one line each: the help wraps them at the terminal's width."""
    paragraphs = inspect.getdoc(function) or ""
    return "\n\n".join(" ".join(each.split()) for each in paragraphs.split("\n\n"))


def _worth_showing(value: object) -> str | None:
    """Whether help prints a default; flags that are off and empty lists are left out."""
    return str(value) if value else None


def _examples(verb: Verb) -> str:
    return "\n".join(["Examples:", *(f"  {example}" for example in verb.examples)])
