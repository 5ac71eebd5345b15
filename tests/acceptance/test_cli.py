"""The command line itself: help, exit codes, where the store comes from, colours, pipes."""

import dataclasses
import inspect
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import help as helps
from holdfast.cli.run import load
from holdfast.cli.tree import NOUNS, VERBS
from tests.acceptance.cli_support import HOLDFAST, Cli, Stock, run_inside, stocked

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def stock(tmp_path: Path) -> Stock:
    return await stocked("sqlite:///" + str(tmp_path / "holdfast.db"))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_every_verb_is_in_the_help_and_in_the_docs() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for verb in VERBS:
        assert f"  {verb.path} " in helps.top(), verb.path
        assert f"`holdfast {verb.path}" in reference, verb.path
        assert verb.summary, verb.path
        assert callable(load(verb)), verb.path
        for example in verb.examples:
            assert example in reference, example


def test_every_option_is_in_the_docs() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for verb in VERBS:
        for name, parameter in inspect.signature(load(verb)).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                shared = dataclasses.is_dataclass(parameter.default)
                names = vars(parameter.default) if shared else [name]
                for each in names:
                    option = "--" + each.strip("_").replace("_", "-")
                    assert option in reference, f"{verb.path} {option}"


def test_help_needs_no_library(cli: Cli) -> None:
    code = (
        "import sys; from holdfast.cli.main import main; main(['--help']); main(['task', '--help']); "
        "print({'asyncio', 'cyclopts', 'rich', 'msgspec', 'logging'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "set()"


def test_without_extras_only_the_agent_cannot_run(cli: Cli) -> None:
    """A plain `pip install holdfast` has every other command."""
    extras = ("asyncpg", "asyncssh", "fastapi", "grpc", "httpx2", "redis", "uvicorn", "websockets")
    code = (
        f"import sys; sys.modules |= dict.fromkeys({extras})\n"
        "from holdfast.cli.run import load\nfrom holdfast.cli.tree import VERBS\n"
        "for verb in VERBS:\n"
        "    try:\n        load(verb)\n"
        "    except Exception as error:\n        print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "MissingExtra `holdfast agent` needs httpx2: pip install 'holdfast[client]'"
    ]


def test_help_in_all_its_forms(cli: Cli) -> None:
    top = cli.ok("--help")
    assert cli.ok() == cli.ok("help") == top
    for noun in NOUNS:
        assert f"  {noun} " in top
    assert "-queue:low" in cli.ok("help", "search")
    assert "-o wide" in cli.ok("help", "formatting")
    assert "HOLDFAST_URL" in cli.ok("help", "environment")
    assert "timeout" in cli.ok("help", "exit-codes")
    assert cli.ok("task") == cli.ok("task", "--help") == cli.ok("help", "task")
    assert "--status" in cli.ok("task", "list", "--help")
    assert re.fullmatch(r"holdfast \d+\.\d+\.\d+", cli.ok("version"))
    assert cli.ok("--version") == cli.ok("version")


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("tsk", "list"), "did you mean 'holdfast task'?"),
        (("task", "lst"), "did you mean 'holdfast task list'?"),
        (("task", "intervene", "x"), "use 'holdfast task' with abort, pause, resume"),
        (("task", "list", "--statu", "x"), "Did you mean --status?"),
        (("task", "list", "--status", "x"), "Choose from"),
        (("task", "list", "--limit", "many"), "--limit"),
        (("task", "list", "more"), "more"),
        (("task", "show"), "TASK_ID is missing"),
        (("worker",), "is missing"),
        (("--frobnicate",), "'--frobnicate' is not an option of holdfast"),
        (("--url", "sqlite://", "--install-completion"), "'--install-completion' is not an option"),
    ],
)
def test_bad_usage_is_exit_code_2(tmp_path: Path, args: tuple[str, ...], word: str) -> None:
    done = run_inside(tmp_path, *args)
    assert done.code == 2
    assert done.said.startswith("error[usage]: ")
    assert word in done.said


def test_bad_usage_is_an_object_when_json_is_asked_for(cli: Cli) -> None:
    assert json.loads(cli.fails(2, "tsk", "-o", "json"))["code"] == "usage"
    assert json.loads(cli.fails(2, "task", "list", "--nope", "--output=json"))["code"] == "usage"


def test_the_store_comes_from_the_first_that_names_one(cli: Cli, stock: Stock) -> None:
    assert len(cli.json("task", "list")) == 6  # the default: holdfast.db in the working folder
    config = cli.folder / "holdfast.toml"
    config.write_text('[holdfast]\nurl = "sqlite:///from-file.db"\n')
    assert "'from-file.db' (holdfast.toml)" in cli.fails(10, "task", "list")
    env = {"HOLDFAST_URL": "sqlite:///from-env.db"}
    assert "'from-env.db' (HOLDFAST_URL)" in cli.fails(10, "task", "list", **env)
    assert "'flag.db' (--url)" in cli.fails(10, "--url", "sqlite:///flag.db", "task", "list", **env)
    assert len(cli.json("task", "list", "--url", stock.url)) == 6
    assert not list(cli.folder.glob("f*.db"))  # a read creates nothing
    config.write_text("[holdfast]\nurk = 1\n")
    assert "unknown key 'urk'" in cli.fails(2, "task", "list")


@pytest.mark.parametrize(
    ("url", "code", "word"),
    [
        ("mysql://localhost/x", 2, "bad-config"),
        ("sqlite://", 2, "in memory"),
        ("postgresql://localhost:1/x", 10, "store-unavailable"),
        ("sqlite:///no/such/folder/x.db", 10, "there is no SQLite file"),
    ],
)
def test_a_store_that_is_not_there_is_an_error(
    tmp_path: Path, url: str, code: int, word: str
) -> None:
    done = run_inside(tmp_path, "stats", "--url", url)
    assert done.code == code
    assert word in done.said


def test_a_store_of_a_newer_schema_is_left_alone(cli: Cli, stock: Stock) -> None:
    with sqlite3.connect(cli.folder / "holdfast.db") as store:
        store.execute("INSERT INTO holdfast_migration VALUES (999, 'future', 'x')")
    store.close()
    assert "upgrade holdfast" in cli.fails(1, "task", "list")
    assert "schema-mismatch" in cli.fails(1, "doctor")


def test_colours_follow_option_and_environment(
    cli: Cli, stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    green = "\x1b[32mcompleted"
    assert green in cli.ok("task", "list", FORCE_COLOR="1")
    assert "\x1b[" not in cli.ok("task", "list")

    def listed(*args: str, **env: str) -> str:
        for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return run_inside(cli.folder, "task", "list", "--url", stock.url, *args).out

    assert green in listed(CLICOLOR_FORCE="1")
    assert "\x1b[" not in listed(FORCE_COLOR="1", NO_COLOR="1")
    assert green in listed("--color", "always", NO_COLOR="1")
    assert "\x1b[" not in listed("--color", "never", FORCE_COLOR="1")


def test_tables_never_pass_control_characters_on(cli: Cli, stock: Stock) -> None:
    evil = cli.ok("enqueue", "add", "--json", '{"a": "\\u001b[2Jx\\nsecond"}')
    assert "\x1b" not in cli.ok("task", "show", evil)
    assert (
        json.loads(cli.ok("task", "show", evil, "-o", "jsonl"))["payload"]["a"]
        == "\x1b[2Jx\nsecond"
    )


def test_a_closed_pipe_is_silent(cli: Cli, stock: Stock) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*HOLDFAST, "events", "tail"],
        cwd=cli.folder,
        env=cli.env,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_is_exit_code_130(cli: Cli, stock: Stock) -> None:
    following = subprocess.Popen(
        [*HOLDFAST, "events", "tail", "--follow"],
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with following:
        try:
            assert following.stdout is not None
            assert following.stdout.readline()
            following.send_signal(signal.SIGINT)
            _, said = following.communicate(timeout=30)
        finally:
            following.kill()
    assert (following.returncode, said) == (130, b"")
