"""Exit codes: the table of the code is that of the documentation, and every error has one of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from holdfast.cli import help as helps
from holdfast.cli.commands.fleet.job_view import made_exit
from holdfast.cli.exits import SHORT, Exit
from holdfast.errors import HoldfastError
from tests.error_tree import in_order

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"


def test_the_documented_codes_are_those_of_the_code() -> None:
    text = PAGE.read_text().partition("| exit code | meaning |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert [int(code) for code, _ in rows] == [code.value for code in Exit]
    for code, meaning in rows:
        assert meaning.startswith(SHORT[Exit(int(code))]), code


def test_every_error_has_a_code_of_the_table() -> None:
    known = {code.value for code in Exit}
    for error in in_order():
        assert error.exit_code in known, error
    assert HoldfastError.exit_code == Exit.FAILED


def test_the_help_lists_the_codes() -> None:
    shown = " ".join(helps.top().split())
    for code in Exit:
        assert f"{code.value} {SHORT[code]}" in shown
    assert max(map(len, helps.top().splitlines())) <= 80


IMPORTED = """
import sys
before = set(sys.modules)
from holdfast.cli.main import main
main(sys.argv[1:])
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
LIGHT = {"enum", "types", "operator", "re", "functools", "collections", "keyword", "reprlib"}
"""Of the standard library, a few thousand lines at most; a bare interpreter has most of them."""
LIGHT |= {"os", "stat", "posixpath", "genericpath", "itertools"}
LIGHT |= {"textwrap", "copyreg", "typing", "contextlib", "warnings", "importlib", "linecache"}


TREE = {"holdfast", "holdfast._lazy", "holdfast.cli"}
TREE |= {f"holdfast.cli.{name}" for name in ("main", "tree", "verb", "exits", "help")}


def imported(*args: str) -> set[str]:
    """The modules that a command line imports beside those of a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *args],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_help_imports_only_the_tree() -> None:
    """`holdfast --help` is instant: it imports neither a library nor a command. Not measured in time, which
    depends on the machine."""
    for args in (["--help"], ["task", "--help"], ["--version"], []):
        found = imported(*args)
        own = {name for name in found if name.partition(".")[0] == "holdfast"}
        strange = {name for name in own if name not in TREE and ".verbs_" not in name}
        assert strange == set(), args
        others = {name.partition(".")[0] for name in found - own}
        assert {name for name in others if not name.startswith("_")} <= LIGHT, args


def test_a_job_that_was_made_now_says_nothing_of_its_end() -> None:
    """It may have ended before it is read, under load."""
    ended = {"status": "FAILED", "finished_at": "2026-01-01T00:00:00Z", "halt": None}
    assert made_exit(ended, created=True) == 0
    assert made_exit(ended, created=False) == Exit.FAILED
    assert made_exit({"status": "WAIT_APPROVAL"}, created=True) == Exit.PENDING
