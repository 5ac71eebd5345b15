"""What commands print at a terminal of 80 columns: empty lists, errors, tables, and hostile text.

HOLDFAST_GOLDEN=1 pytest tests/acceptance/test_cli_golden.py     # writes the expected texts again
"""

from __future__ import annotations

import asyncio
import io
import os
import shlex
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.cli.output.table import cells_of
from holdfast.cli.tree import VERBS
from holdfast.cli.verb import Kind
from tests.acceptance.both_ways.answers import words
from tests.acceptance.both_ways.cases import CASES, STORE
from tests.acceptance.both_ways.world import fill
from tests.acceptance.cli_support import Done, run_inside

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = 80
EVIL = "\x1b]0;PWNED\x07\x1b[2J\r\n\x9b31m\u202eevil\u2066\u200b\u0007"
"""ANSI, control characters, line breaks, and marks that turn the order of text around."""
LISTS = [verb.path for verb in VERBS if verb.kind is Kind.LIST and not verb.local]
ERRORS = [
    "task show none",
    "task show",
    "tsk list",
    "task lst",
    "lock extend web",
    "node lable x",
    "doctor store",
    "stats now",
    "task delete x",
    "job stop x",
    "watch none",
    "logs none",
    "events tail --after x",
    "task list --statu x",
    "task list --status x",
    "task list -q 'sttus:failed'",
    "task list -q '(status:failed'",
    "queue show mial",
    "queue pause mial",
    "queue list -q 'x:y'",
    "task cancel",
    "task cancel abc",
    "dlq discard",
    "op run fly -q x",
    "enqueue",
    "enqueue none",
    "enqueue add a",
    "schedule add x 'every day' add",
    "token create ci --role king",
    "job show none",
    "host show none",
    "run uptime --hosts none",
    "db new-epoch",
    "completion tcsh",
    "task list --gateway holdfast://x --url sqlite:///x.db",
    "events tail --kind task.dad",
    "wait none --for done",
]


class Terminal(io.StringIO):
    """Standard output that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('full')}/holdfast.db"


@pytest.fixture(scope="module")
def names(url: str) -> dict[str, str]:
    return asyncio.run(fill(url))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = f"sqlite:///{tmp_path_factory.mktemp('empty')}/holdfast.db"
    asyncio.run(_create(made))
    return made


async def _create(url: str) -> None:
    queue = TaskQueue(url)
    await queue.open()
    await queue.stop()


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOLDFAST_URL", "HOLDFAST_GATEWAY", "HOLDFAST_TOKEN", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


def run(*args: str) -> Done:
    return run_inside(Path.cwd(), *args, out=Terminal())


def compare(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("HOLDFAST_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def of_list(path: str, names: dict[str, str]) -> list[str]:
    """The command line of a list."""
    case = CASES[path][0].replace("{side}", STORE).split()
    return [*path.split(), *(names.get(word, word) for word in case)]


def test_empty_lists_say_so(empty: str) -> None:
    shown = []
    for path in LISTS:
        if len(of_list(path, {})) > len(path.split()) and path != "audit list":
            continue  # it needs an object
        done = run(*path.split(), "--url", empty)
        assert (done.code, done.out if path != "project list" else "") == (0, ""), path
        shown.append(f"$ holdfast {path}\n{done.out}{done.said}")
    compare("empty", "".join(shown))


def test_errors_say_what_happened_and_what_to_do(empty: str) -> None:
    shown = []
    for line in ERRORS:
        args = shlex.split(line)
        where = [] if "--url" in args or args[0] == "completion" else ["--url", empty]
        done = run(*args, *where)
        assert done.code != 0, line
        assert done.out == "", line
        shown.append(f"$ holdfast {line}\n{done.said}exit code {done.code}\n\n")
    compare("errors", words("".join(shown)))


@pytest.mark.parametrize("path", LISTS)
def test_a_table_fits_eighty_columns(path: str, url: str, names: dict[str, str]) -> None:
    done = run(*of_list(path, names), "--url", url)
    assert done.code == 0, done
    wide = [line for line in done.out.splitlines() if cells_of(line) > COLUMNS]
    assert wide == []


def test_what_a_person_looks_for_is_there_at_eighty_columns(
    url: str, names: dict[str, str]
) -> None:
    lines = run("doctor", "--url", url).out.splitlines()
    assert lines[0].split() == ["CHECK", "LEVEL", "FOUND"]
    assert "schema" in " ".join(lines)
    assert "as this version of Holdfast expects" in " ".join(lines)
    heads = {path: run(*of_list(path, names), "--url", url).out.split("\n")[0] for path in LISTS}
    assert "QUESTION" in heads["decision list"]


def test_a_long_id_leaves_room_for_the_values(url: str, names: dict[str, str]) -> None:
    done = run("decision", "show", names["decision-s"], "--url", url)
    lines = done.out.splitlines()
    assert lines[0] == f"{names['decision-s']}  open"
    assert all(line.index("  ") < 20 for line in lines[1:])
    piped = run_inside(Path.cwd(), "decision", "show", names["decision-s"], "--url", url)
    assert piped.out.splitlines()[1].startswith("task" + " " * 30), "a pipe has one column"


def test_wide_tables_have_all_columns_in_full(url: str, names: dict[str, str]) -> None:
    done = run(*of_list("decision list", names), "--url", url, "-o", "wide")
    assert done.out.splitlines()[0].split() == ["ID", "STATE", "TASK", "QUESTION", "DEADLINE"]


def test_a_table_of_tasks(url: str, names: dict[str, str]) -> None:
    done = run("task", "list", "--type", "boom", "--url", url)
    rows = [line.split()[:3] for line in done.out.splitlines()]
    assert rows[0] == ["ID", "TYPE", "STATUS"]
    assert sorted(rows[1:]) == sorted(
        [name, "boom", "failed"]
        for name in ("dead-1", "dead-2", "ended.0", *(
            f"{what}-{side}" for what in ("retried", "replayed", "discarded") for side in "sg"
        ))
    )  # fmt: skip


HOSTILE = {
    "enqueue add --id evil-1 --metadata note=EVIL": 0,
    "queue pause default --reason EVIL": 2,
    "token create EVIL --reason EVIL": None,
    "project create EVIL": None,
    "host add EVIL": None,
    "group add EVIL *": None,
    "block add --host fixed-1 -m EVIL": None,
    "webhook add EVIL": None,
    "schedule add EVIL @hourly add": None,
    "task cancel evil-1 --reason EVIL": None,
}
"""Changes with hostile text, and their exit codes. None: it may be refused. A reason with
control characters always is."""


def test_hostile_text_does_not_reach_the_terminal(url: str, names: dict[str, str]) -> None:
    for line, code in HOSTILE.items():
        done = run(*(word.replace("EVIL", EVIL) for word in line.split()), "--url", url)
        assert code is None or done.code == code, (line, done)
        assert is_plain(done.out + done.said), line
    for path in LISTS:
        for more in ((), ("-o", "json"), ("-o", "jsonl"), ("-o", "name")):
            done = run(*of_list(path, names), *more, "--url", url)
            assert is_plain(done.out + done.said), (path, more)
    assert is_plain(run("queue", "show", "default", "--url", url).out)
    assert is_plain(run("task", "show", "evil-1", "--url", url).out)


def is_plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()
