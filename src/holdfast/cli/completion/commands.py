"""What a shell completes, as data: the commands with their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.cli.main import TOPIC_NAMES
from holdfast.cli.options import Common
from holdfast.cli.run import load
from holdfast.cli.signature import Option, choices_of_arguments, options_of, shared_options
from holdfast.cli.tree import NOUNS, VERBS
from holdfast.cli.verb import Verb

HELP = Option(("--help",), "Show the help of the command.", (), True)


class Command(NamedTuple):
    """A command of the tree, a noun, or the program itself, whose path is empty."""

    path: str
    words: tuple[tuple[str, str], ...]
    """What may follow, with descriptions."""
    options: tuple[Option, ...] = ()
    is_noun: bool = False


def all_commands() -> list[Command]:
    """The whole tree."""
    return commands_of(VERBS, NOUNS)


def commands_of(verbs: Iterable[Verb], nouns: dict[str, str]) -> list[Command]:
    """The program, its nouns, and its verbs."""
    listed = list(verbs)
    top = [(verb.path, verb.summary) for verb in listed if " " not in verb.path]
    top += list(nouns.items())
    leading = (*shared_options(Common), HELP)
    topics = tuple((name, "") for name in TOPIC_NAMES)
    found = [Command("", (*top, ("help", "Show the help of a command")), leading)]
    found.append(Command("help", (*top, *topics)))
    for noun in nouns:
        of_noun = [verb for verb in listed if verb.path.startswith(f"{noun} ")]
        words = tuple((verb.path.split()[1], verb.summary) for verb in of_noun)
        found.append(Command(noun, words, (HELP,), is_noun=True))
    for verb in listed:
        function = load(verb)
        words = tuple((choice, "") for choice in choices_of_arguments(function))
        found.append(Command(verb.path, words, (*options_of(function), HELP)))
    return found
