"""Errors as users see them.

Promises: `error[code]: message` on stderr, or with `-o json` a problem object (RFC 9457). The exit code
is that of the error (`exit_code`). Notes of an error (such as file and line in the application) follow on
separate lines.
Never: a traceback of Holdfast, unless HOLDFAST_DEBUG is set.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Final

from holdfast.cli.exits import Exit
from holdfast.core.text import json_text, lines, one_line
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.queue.problem import Problem, problem_of

PARTIAL = Exit.PARTIAL
DEBUG_VARIABLE = "HOLDFAST_DEBUG"


class Usage(InvalidInput):
    """The command line itself is wrong."""


def report(error: Exception, tokens: list[str]) -> int:
    """Prints the error and returns its exit code."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    problem = describe(error, tokens)
    show(problem, as_json=wants_json(tokens))
    if problem.code == OUTPUT:
        from holdfast.cli.output.printer import mute

        mute()  # what is left would fail again at the exit
    return problem.exit


def show(problem: Problem, *, as_json: bool) -> None:
    if as_json:
        print(json_text(json.dumps(problem.as_json())), file=sys.stderr)
    else:
        print(f"error[{problem.code}]: {one_line(problem.message)}", file=sys.stderr)
        for note in problem.notes:
            print(lines(note), file=sys.stderr)


def describe(error: BaseException, tokens: Sequence[str] = ()) -> Problem:
    """Any exception as a problem. `tokens`: the command line."""
    if isinstance(error, HoldfastError):
        problem = problem_of(error)
        return problem._replace(code="usage") if isinstance(error, Usage) else problem
    if type(error).__module__.startswith("cyclopts"):
        message = " ".join(str(error).split())
        if missing := MISSING.fullmatch(message):
            message = f"{missing[1]} is missing: --help shows what the command takes"
            if missing[1] in tokens:
                message = (
                    f"{missing[1]} has no value: write {missing[1]}=-5 if it begins with a dash"
                )
        elif unused := UNUSED.fullmatch(message):
            message = f"the command does not take {unused[1]}: --help shows what it takes"
        elif repeated := REPEATED.fullmatch(message):
            message = (
                f"{repeated[1]} is given more than once: give it once; where --help allows several "
                f"values, put commas between them, e.g. {repeated[1]} a,b"
            )
        return Problem("usage", message, InvalidInput.exit_code, InvalidInput.http_status)
    if isinstance(error, OSError) and error.errno in FULL:
        message = (
            f"the output cannot be written: {error.strerror}; a change that the command was to make may be "
            "done, so look at it before you repeat it"
        )
        return Problem(OUTPUT, message, HoldfastError.exit_code, HoldfastError.http_status)
    message = f"{type(error).__name__}: {error}; set {DEBUG_VARIABLE}=1 to see where it happened"
    return Problem("internal", message, HoldfastError.exit_code, HoldfastError.http_status)


def wants_json(tokens: list[str]) -> bool:
    """Whether the command line asks for JSON, even if it cannot be parsed."""
    text = "\n".join(tokens)
    return any(
        f"{option}{between}json" in text
        for option in ("-o", "--output")
        for between in ("\n", "=", "")
    )


OUTPUT: Final = "output"
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write to a file or a disk without room fails with. Stores have their own error for it."""
MISSING: Final = re.compile(r"Parameter (\S+) requires an argument\.")
"""What the parser says of an argument or an option that is not there."""
UNUSED: Final = re.compile(r"Unused Tokens: \[(.*)\]\.")
"""What it says of arguments for which the command has no place."""
REPEATED: Final = re.compile(r"Parameter (\S+) specified multiple times\.")
ELSEWHERE: Final = {
    "dead": "use 'holdfast dlq list'",
    "purge": "use 'holdfast op run abort -q status:queued'",
    "requeue": "use 'holdfast dlq replay', or 'holdfast task retry' for a task that waits",
    "decide": "use 'holdfast decision answer'",
    "task intervene": "use 'holdfast task' with abort, pause, resume, retry, reassign, release or force",
}
"""Names that other texts and other queues have for commands, and what to use."""
SYNONYMS: Final = {
    "ls": ("list",),
    "get": ("show",),
    "describe": ("show",),
    "info": ("show",),
    "status": ("show",),
    "create": ("add", "register", "enqueue"),
    "new": ("add", "create"),
    "delete": ("remove", "discard", "cancel", "revoke"),
    "rm": ("remove", "discard", "cancel", "revoke"),
    "stop": ("abort", "pause"),
    "kill": ("abort",),
    "update": ("edit", "set"),
    "resolve": ("settle",),
    "release": ("revoke",),
    "purge": ("discard",),
}
"""Verbs that other programs use, and what a noun may have for them."""
SIMILARITY_MIN: Final = 0.72
"""A mistyped verb is as similar as this to the one that is meant; 1 is the same."""
VERBS_MAX: Final = 3
"""Commands that are suggested for a verb without its noun, those of tasks first."""


def unknown_command(tokens: list[str]) -> Usage:
    """Suggests a similar command, if there is one."""
    import difflib

    from holdfast.cli.tree import BY_PATH, NOUNS

    if tokens[0] in NOUNS:
        given = " ".join(tokens[:2])
        verbs = [path.partition(" ")[2] for path in BY_PATH if path.startswith(f"{tokens[0]} ")]
        close = [f"{tokens[0]} {verb}" for verb in _meant(tokens[1], verbs)]
        otherwise = f"{tokens[0]} has {', '.join(verbs)}"
    else:
        given = tokens[0]
        close = [path for path in BY_PATH if path.endswith(f" {given}")][:VERBS_MAX]
        close = close or difflib.get_close_matches(given, [*BY_PATH, *NOUNS], n=1)
        otherwise = "see holdfast --help"
    names = " or ".join(f"'holdfast {path}'" for path in close)
    guess = f"did you mean {names}?" if close else otherwise
    guess = ELSEWHERE.get(given, guess)
    return Usage(f"'{given}' is not a command of holdfast: {guess}")


def _meant(given: str, verbs: list[str]) -> list[str]:
    """The one of these verbs that is meant, if that is clear: a wrong guess may do harm."""
    import difflib

    same = [verb for verb in SYNONYMS.get(given, ()) if verb in verbs]
    return same[:1] or difflib.get_close_matches(given, verbs, n=1, cutoff=SIMILARITY_MIN)
