"""The entry point of the command line.

Promises: help and version are printed before any library is imported. Every error becomes one line (or
one problem object) on stderr and an exit code of the table. A closed pipe is silent; Ctrl-C is 130. Standard
streams that the caller has closed are opened again, so that no database and no socket gets their numbers.
Never: shows a traceback, unless HOLDFAST_DEBUG is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from holdfast.cli.exits import Exit
from holdfast.cli.tree import BY_PATH, NOUNS
from holdfast.cli.verb import Verb

HELP = ("-h", "--help")
TOPIC_NAMES = ("search", "formatting", "environment", "exit-codes")
VALUED = ("--url", "--app", "--gateway", "--token", "-o", "--output", "--color")
"""Options that may also precede the command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    code = 0
    open_streams()
    try:
        check_text(tokens)
        code = dispatch(tokens)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        from holdfast.cli.output.printer import mute

        mute()
        return code
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # so ends the printer of help
            return code
        raise
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        from holdfast.cli.problem import report

        return report(error, tokens)


def open_streams() -> None:
    """Opens standard streams that are closed. What is written to them is discarded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode, encoding="utf-8"))


def check_text(tokens: list[str]) -> None:
    """Raises Usage for arguments that are no text."""
    for token in tokens:
        if not token.isascii() and any("\ud800" <= char <= "\udfff" for char in token):
            from holdfast.cli.problem import Usage

            shown = token.encode(errors="replace").decode()
            raise Usage(
                f"the argument '{shown}' is not UTF-8: check the encoding of the terminal or script"
            )


def dispatch(tokens: list[str]) -> int:
    """Finds the verb; prints help itself."""
    if tokens[:1] == ["help"]:
        if len(tokens) == 2 and tokens[1] in TOPIC_NAMES:
            return _print_topic(tokens[1])
        tokens = [*tokens[1:], "--help"]
    if tokens[:1] in (["--version"], ["-V"]):
        return version()
    leading, rest = split_leading(tokens)
    if not rest:
        if leading:
            check_alone(leading)
        return _print_help(None)
    if rest[0] in HELP:
        return _print_help(None)
    if rest[0] in NOUNS and (len(rest) == 1 or rest[1] in HELP):
        return _print_help(rest[0])
    verb, arguments = find(rest)
    if verb.path == "version" and not arguments:
        return version()
    from holdfast.cli.run import run

    return run(verb, [*leading, *arguments])


def split_leading(tokens: list[str]) -> tuple[list[str], list[str]]:
    """Options before the command, and the rest."""
    at = 0
    while at < len(tokens) and tokens[at].startswith("-") and tokens[at] not in HELP:
        at += 2 if tokens[at] in VALUED else 1
    return tokens[:at], tokens[at:]


def check_alone(leading: list[str]) -> None:
    """Raises Usage for an unknown option without a command."""
    from holdfast.cli.problem import Usage

    for at, token in enumerate(leading):
        is_value = at > 0 and leading[at - 1] in VALUED
        if not is_value and not token.startswith(VALUED):
            raise Usage(f"'{token}' is not an option of holdfast: see holdfast --help")


def find(tokens: list[str]) -> tuple[Verb, list[str]]:
    """The verb that the tokens name, and its arguments."""
    for words in (2, 1):
        verb = BY_PATH.get(" ".join(tokens[:words]))
        if verb is not None:
            return verb, tokens[words:]
    from holdfast.cli.problem import unknown_command

    raise unknown_command(tokens)


def version() -> int:
    """Print the version."""
    from holdfast import __version__

    print(f"holdfast {__version__}")
    return 0


def _print_topic(name: str) -> int:
    from holdfast.cli import help as helps

    print(helps.topic(name).rstrip())
    return 0


def _print_help(noun: str | None) -> int:
    from holdfast.cli import help as helps

    print(helps.top() if noun is None else helps.noun(noun))
    return 0
