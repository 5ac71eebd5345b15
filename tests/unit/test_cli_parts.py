"""Small parts of the command line: durations, tables, settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import values
from holdfast.cli.output import table
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length, relative
from holdfast.cli.problem import Usage, wants_json
from holdfast.cli.worker.command import _token_file
from holdfast.config import find_url
from holdfast.errors import BadConfig
from holdfast.queue.views import at, time_of

COLUMNS = [
    Column("ID", lambda item: item["id"]),
    Column("TEXT", lambda item: item["text"], flex=True),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("30", 30.0),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("90s", 90.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
    ],
)
def test_durations(text: str, expected: float) -> None:
    assert values.seconds(text, "--x") == expected


@pytest.mark.parametrize("text", ["", "-1", "soon", "1w", "1 2", "nan", "1e3"])
def test_a_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(Usage, match="--x is"):
        values.seconds(text, "--x")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0005, "0ms"),
        (0.85, "850ms"),
        (5.24, "5.2s"),
        (42.0, "42s"),
        (60.0, "1m"),
        (200.0, "3m 20s"),
        (7300.0, "2h 1m"),
        (187200.0, "2d 4h"),
    ],
)
def test_durations_are_shown_in_two_units(seconds: float, expected: str) -> None:
    assert length(seconds) == expected


def test_times_for_people_and_programs() -> None:
    assert relative(None, 10.0) == "-"
    assert relative(7.0, 10.0) == "3.0s ago"
    assert relative(70.0, 10.0) == "in 1m"
    assert at(0.5) == "1970-01-01T00:00:00.500Z"
    assert time_of(at(0.5)) == 0.5


def test_a_table_is_cut_on_a_terminal_only() -> None:
    items = [{"id": "a" * 30, "text": "b" * 60}]
    whole = table.render(items, COLUMNS, width=None, colour=False)
    assert whole[1].endswith("b" * 60)
    fitted = table.render(items, COLUMNS, width=50, colour=False)
    assert max(map(len, fitted)) == 50
    assert fitted[1].startswith("a" * 30)
    assert fitted[1].endswith("…")
    narrow = table.render(items, COLUMNS, width=40, colour=False)
    assert narrow == ["ID", "a" * 30], "a column that does not fit is left out; the first one stays"


def test_columns_of_a_high_rank_are_left_out_first() -> None:
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("MORE", lambda item: "m" * 10, rank=1),
        Column("STATE", lambda item: "s" * 10),
    ]
    shown = table.render([{"id": "i" * 10}], columns, width=25, colour=False)
    assert shown[0].split() == ["ID", "STATE"]


def test_the_last_column_goes_on_below_itself_if_it_wraps() -> None:
    columns = [
        Column("CHECK", lambda item: item["id"]),
        Column("FOUND", lambda item: item["text"], wrap=True),
    ]
    items = [{"id": "disk", "text": f"five words are in {'x' * 30} it"}]
    assert table.render(items, columns, width=34, colour=False) == [
        "CHECK  FOUND",
        f"disk   five words are in {'x' * 30}",
        "       it",
    ]
    assert len(table.render(items, columns, width=None, colour=False)) == 2


def test_a_long_value_goes_on_below_itself_on_a_terminal() -> None:
    fields = [("id", "a1"), ("reason", "one two three four five six seven")]
    assert table.pairs(fields, width=34, colour=False) == [
        "id      a1",
        "reason  one two three four five",
        "        six seven",
    ]
    assert len(table.pairs(fields, colour=False)) == 2


def test_wide_characters_count_twice() -> None:
    items = [{"id": "日本語", "text": "x"}, {"id": "abc", "text": "y"}]
    shown = table.render(items, COLUMNS, width=None, colour=False)
    assert [table.cells_of(line) for line in shown[1:]] == [9, 9]
    assert table.cut("日本語", 5) == "日本…"
    assert table.cells_of("e\u0301") == 1


def test_cells_are_one_printable_line() -> None:
    assert table.clean("a\nb\tc\x1b[31m\x00") == "a b c?[31m?"
    assert table.clean(None) == table.clean("") == "-"
    assert table.clean(0) == "0"


def test_json_is_noticed_even_in_a_line_that_cannot_be_parsed() -> None:
    for line in ("-o json", "--output json", "--output=json", "-ojson", "x -o jsonl"):
        assert wants_json(line.split()), line
    for line in ("-o table", "json", "--json x", ""):
        assert not wants_json(line.split()), line


def test_where_the_url_comes_from(tmp_path: Path) -> None:
    assert find_url(None, {}, tmp_path) == ("sqlite:///holdfast.db", "the default")
    (tmp_path / "holdfast.toml").write_text('[holdfast]\nurl = "a"\n[server]\nport = 1\n')
    assert find_url(None, {}, tmp_path) == ("a", "holdfast.toml")
    assert find_url(None, {"HOLDFAST_URL": "b"}, tmp_path) == ("b", "HOLDFAST_URL")
    assert find_url("c", {"HOLDFAST_URL": "b"}, tmp_path) == ("c", "--url")


@pytest.mark.parametrize(
    "text", ["[holdfast\n", "holdfast = 1\n", "[holdfast]\nurl = 1\n", 'url = "a"\n', "\xff"]
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "holdfast.toml").write_text(text, encoding="latin-1")
    with pytest.raises(BadConfig, match=r"holdfast\.toml"):
        find_url(None, {}, tmp_path)


WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"fastapi", "starlette", "uvicorn", "httpx2", "websockets", "grpc"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import holdfast.gateway.local, holdfast.cli.operations
"""


def test_commands_on_a_store_need_no_extra() -> None:
    """Every command that changes something runs over these modules."""
    subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], check=True)


def test_a_token_option_of_a_worker_counts_more_than_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, url = Path("a.token"), "holdfast://host"
    with pytest.raises(Usage, match="--token and --token-file are both given"):
        _token_file(file, "typed", url, 1)
    monkeypatch.setenv("HOLDFAST_TOKEN", "exported")
    assert _token_file(file, "exported", url, 1) is not None
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", "a.token")
    assert _token_file(file, "typed", url, 1) is None
    with pytest.raises(Usage, match="HOLDFAST_TOKEN and HOLDFAST_TOKEN_FILE are both given"):
        _token_file(file, "exported", url, 1)
