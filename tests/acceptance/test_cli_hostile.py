"""The command line with hostile input: empty ids, bad bytes, control characters, closed pipes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli_support import APP, HOLDFAST, Cli, Stock, run_inside, stocked

EVIL = "\x1b]0;PWNED\x07\x1b[2J\nerror[ok]: all is well\r\x9b31m"
EVIL_APP = f"""{APP}
@queue.task(max_attempts=1)
async def evil() -> None:
    raise ValueError({EVIL!r})

@queue.task()
async def odd() -> str:
    return "\\x9b31m \\x7f \\u202e"
"""


@pytest.fixture
async def stock(tmp_path: Path) -> Stock:
    return await stocked("sqlite:///" + str(tmp_path / "holdfast.db"))


@pytest.fixture
def cli(tmp_path: Path, stock: Stock) -> Cli:
    return Cli(tmp_path)


def fresh(folder: Path) -> Cli:
    """An empty store."""
    return Cli(folder, f"sqlite:///{folder / 'fresh.db'}")


def is_plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_the_error_of_a_task_does_not_steer_the_terminal(tmp_path: Path) -> None:
    cli = fresh(tmp_path)
    with cli.worker(app=EVIL_APP) as worker:
        worker.ready()
        done = cli.run("enqueue", "evil", "--wait")
        assert done.returncode != 0
        assert is_plain(done.stderr)
        assert done.stderr.count("\nerror[") == 1, "no line is forged"
        assert is_plain(cli.run("enqueue", "evil", "--wait", "-o", "json").stderr)
        found = cli.ok("enqueue", "odd", "--wait", "-o", "json")
        assert is_plain(found)
        assert "\x9b31m \x7f \u202e" in json.dumps(json.loads(found), ensure_ascii=False)


@pytest.mark.parametrize(
    "change", [("task", "cancel"), ("task", "pause"), ("dlq", "replay"), ("dlq", "discard")]
)
def test_an_empty_or_short_id_changes_nothing(
    cli: Cli, stock: Stock, change: tuple[str, str]
) -> None:
    before = cli.see("task", "list")
    for text in ("", stock.later[:5]):
        assert cli.fails(2, *change, text).startswith("error[usage]")
    assert cli.fails(2, "dlq", "edit", "", "n=1").startswith("error[usage]")
    assert cli.see("task", "list") == before


@pytest.mark.parametrize(
    "command",
    [
        "op undo",
        "op show",
        "node show",
        "host show",
        "task-group cancel",
        "schedule show",
    ],
)
def test_an_empty_name_is_said_to_be_empty(stock: Stock, command: str) -> None:
    done = run_inside(Path(stock.url.removeprefix("sqlite:///")).parent, *command.split(), "")
    assert (done.code, "is empty: check that the variable" in done.said) == (2, True)


def test_an_undecodable_line_stops_no_other(cli: Cli, stock: Stock) -> None:
    first, second, third = stock.dead
    done = subprocess.run(
        [*HOLDFAST, "dlq", "discard", "-"],
        input=f"{first}\n".encode() + b"\xff\xfe\n" + f"{second}\n{third}\n".encode(),
        cwd=cli.folder,
        env=cli.env,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert [line.split()[0].decode() for line in done.stdout.splitlines()] == stock.dead
    assert done.stderr.startswith(b"error[invalid-input]")


def test_an_id_of_stdin_must_be_text(cli: Cli) -> None:
    for line in ('{"id": null}', '{"id": 7}', "{" * 100_000):
        assert "a line of stdin has no id" in cli.fails(2, "task", "cancel", "-", input=line)


def test_json_that_is_nested_too_deeply_is_a_wrong_call(cli: Cli) -> None:
    assert "nested too deeply" in cli.fails(2, "enqueue", "add", "--json", "-", input="[" * 200_000)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"'])
def test_a_value_that_json_does_not_have_changes_nothing(stock: Stock, value: str) -> None:
    """In a merge patch null removes a field, so a value that became null would delete data."""
    folder, patch = Path(stock.url.removeprefix("sqlite:///")).parent, f'{{"n": {value}}}'
    some = ("-q", "type:boom", "--patch", patch)
    for change in (
        ("dlq", "replay", stock.dead[0], "--patch", patch),
        ("dlq", "replay", *some, "--yes"),
        ("op", "run", "replay", *some),
        ("dlq", "edit", stock.dead[0], f"n={value}"),
        ("task", "edit", stock.later, f"a={value}"),
    ):
        done = run_inside(folder, *change)
        assert (done.code, "error[unserialisable-payload]" in done.said) == (2, True), change
    found = run_inside(folder, "task", "show", stock.dead[0], "-o", "json").out
    assert (json.loads(found)["status"], json.loads(found)["payload"]) == ("failed", {"n": 0})


def test_a_wait_for_no_status_is_refused(cli: Cli, stock: Stock) -> None:
    for text in ("status=", "status=,", "completed"):
        assert "--for is" in cli.fails(2, "wait", stock.done, "--for", text)


def test_a_query_that_no_event_can_match_is_refused_at_once(cli: Cli) -> None:
    for query in ("status:queued sort:updated", "type:" + "x" * 1_900, "type:("):
        assert "error[invalid-input]" in cli.fails(2, "watch", "-q", query)
    assert "at character 5" in cli.fails(2, "watch", "-q", "type:(")


def test_a_call_that_does_not_end_is_refused(cli: Cli) -> None:
    assert "events tail --follow" in cli.fails(2, "api", "GET", "/stream", "topics=system:events")


def test_a_negative_number_of_dead_letters_is_refused(cli: Cli) -> None:
    for verb in ("discard", "replay"):
        said = cli.fails(2, "dlq", verb, "--all", "--limit", "-1", "--dry-run")
        assert said.startswith("error[")


def test_a_closed_pipe_does_not_hide_that_changes_failed(cli: Cli, stock: Stock) -> None:
    """The reader closes the pipe before the answer is written; one of two ids is unknown."""
    process = subprocess.Popen(
        [*HOLDFAST, "task", "cancel", stock.later, "nothing-like-it"],
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 3


@pytest.fixture
def heard_hangup() -> Iterator[None]:
    """SIGHUP as in a terminal, also where the tests run under nohup: a worker would inherit that it is
    ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard_hangup")
def test_a_closed_terminal_is_a_graceful_stop(tmp_path: Path) -> None:
    with fresh(tmp_path).worker() as worker:
        worker.ready()
        worker.send(signal.SIGHUP)
        assert worker.ends() == 0
        assert "stopping on SIGHUP" in "".join(worker.said)


def test_nodes_are_listed(tmp_path: Path) -> None:
    cli = fresh(tmp_path)
    with cli.worker() as worker:
        (pid,) = worker.ready()
        (node,) = cli.json("node", "list")
        assert f":{pid}:" in node["id"]
        assert node["live"]
        assert "add" in node["types"]
        assert "live" in cli.ok("node", "list")
