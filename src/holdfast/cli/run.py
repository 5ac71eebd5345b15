"""Runs one verb: parses its arguments by its signature, and turns its result into an exit code."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from cyclopts import App, Parameter

from holdfast.cli.problem import Usage
from holdfast.cli.values import STDIN
from holdfast.cli.verb import Verb


def run(verb: Verb, tokens: list[str]) -> int:
    """Raises the errors of the command; CycloptsError for bad usage."""
    app = App(
        name=f"holdfast {verb.path}",
        version_flags=(),
        help_epilogue=_examples(verb),
        help_format="plaintext",
        default_parameter=Parameter(show_default=_worth_showing),
        result_action="return_value",
    )
    app.default(load(verb))
    app["--help"].show = False
    _refuse_gateway(verb, tokens)
    plain = [STDIN if token == "-" else token for token in tokens]
    code = app(plain, exit_on_error=False, print_error=False)
    return code if isinstance(code, int) else 0


def _refuse_gateway(verb: Verb, tokens: list[str]) -> None:
    """Raises Usage for `--gateway` with a command that has no use for it."""
    named = [token for token in tokens if token == "--gateway" or token.startswith("--gateway=")]
    if verb.local and named:
        raise Usage(f"holdfast {verb.path} does not go through a gateway: {verb.local}")


def load(verb: Verb) -> Callable[..., Any]:
    """The function of a verb."""
    module, _, name = verb.place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def _worth_showing(value: object) -> str | None:
    """Whether help prints a default; flags that are off and empty lists are left out."""
    return str(value) if value else None


def _examples(verb: Verb) -> str:
    return "\n".join(["Examples:", *(f"  {example}" for example in verb.examples)])
