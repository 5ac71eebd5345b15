"""Settings: the file, then the environment, then flags; `config explain` names the source of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.options import Common
from holdfast.cli.session import target
from holdfast.config import find_gateway, find_token
from tests.acceptance.cli_support import Done, run_inside

SECRET = "hf_admin_" + "s" * 40


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_URL", "HOLDFAST_GATEWAY", "HOLDFAST_TOKEN", "HOLDFAST_OUTPUT"):
        monkeypatch.delenv(name, raising=False)


def explained(folder: Path, *args: str) -> dict[str, tuple[str, str]]:
    """The value and the source of each setting."""
    done = run_inside(folder, "config", "explain", *args, "-o", "json")
    assert done.code == 0, done
    return {item["id"]: (item["value"], item["origin"]) for item in json.loads(done.out)}


def test_a_flag_counts_more_than_the_environment_and_that_more_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explained(tmp_path)["server.port"] == ("8787", "default")
    (tmp_path / "holdfast.toml").write_text(
        '[holdfast]\nurl = "sqlite:///a.db"\n[server]\nport = 1\nburst = 7\n'
    )
    monkeypatch.setenv("HOLDFAST_SERVER__PORT", "2")
    found = explained(tmp_path)
    assert found["server.port"] == ("2", "HOLDFAST_SERVER__PORT")
    assert found["server.burst"] == ("7", "holdfast.toml")
    assert found["url"] == (f"sqlite:///{tmp_path}/a.db", "holdfast.toml")
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://ann:word@db/app")
    assert explained(tmp_path)["url"] == ("postgresql://ann:***@db/app", "HOLDFAST_URL")
    assert explained(tmp_path, "--url", "sqlite:///b.db")["url"][1] == "--url"
    only = explained(tmp_path, "-q", "-origin:default")
    assert set(only) == {"url", "server.port", "server.burst"}


def test_secrets_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("hf_user_secret\n")
    (tmp_path / "holdfast.toml").write_text(
        '[holdfast]\ngateway = "holdfast://hub:8787"\ntoken_file = "token"\n'
    )
    monkeypatch.setenv("HOLDFAST_ADMIN_TOKEN", SECRET)
    monkeypatch.setenv("HOLDFAST_SERVER__REDIS", "redis://:word@cache:6379")
    found = explained(tmp_path)
    assert found["token"] == ("(hidden)", "holdfast.toml")
    assert found["admin_token"] == ("(hidden)", "HOLDFAST_ADMIN_TOKEN")
    assert found["gateway"] == ("holdfast://hub:8787", "holdfast.toml")
    text = json.dumps(found)
    assert not [secret for secret in (SECRET, "hf_user_secret", "word") if secret in text]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[holdfast]\nurk = 1\n", "did you mean 'url'?"),
        ("[holdfast]\nouput = 'json'\n", "did you mean 'output'?"),
        ("[servr]\nport = 1\n", "did you mean [server]?"),
        ("[server]\nprot = 1\n", "did you mean 'port'?"),
        ("[fleet]\nlease_second = 1\n", "did you mean 'lease_seconds'?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(
    tmp_path: Path, text: str, word: str
) -> None:
    (tmp_path / "holdfast.toml").write_text(text)
    done = run_inside(tmp_path, "config", "explain")
    assert (done.code, done.out) == (2, "")
    assert word in done.said


def test_an_unknown_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKN", "x")
    done = run_inside(tmp_path, "config", "explain")
    assert "HOLDFAST_TOKN has no effect: did you mean HOLDFAST_TOKEN?" in done.said
    monkeypatch.setenv("HOLDFAST_SERVR__PORT", "1")
    assert "did you mean 'server'?" in run_inside(tmp_path, "config", "explain").said


def test_the_format_comes_from_the_environment_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*args: str) -> Done:
        return run_inside(tmp_path, "config", "path", *args)

    assert asked().out.startswith("file ")
    (tmp_path / "holdfast.toml").write_text('[holdfast]\noutput = "json"\n')
    assert json.loads(asked().out)["exists"] is True
    monkeypatch.setenv("HOLDFAST_OUTPUT", "name")
    assert asked().out == f"{tmp_path}/holdfast.toml\n"
    assert asked("-o", "table").out.startswith("file ")
    assert asked("-otable").out.startswith("file ")
    monkeypatch.setenv("HOLDFAST_OUTPUT", "xml")
    wrong = asked()
    assert (wrong.code, "HOLDFAST_OUTPUT: --output is 'xml'" in wrong.said) == (2, True)


def test_a_store_of_the_environment_counts_more_than_a_gateway_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[holdfast]\ngateway = "holdfast://hub"\n')
    found = find_gateway(None, None, {}, tmp_path)
    assert found == ("holdfast://hub", "holdfast.toml")
    assert find_gateway(None, None, {"HOLDFAST_URL": "sqlite:///x.db"}, tmp_path) is None
    assert find_gateway(None, "sqlite:///x.db", {}, tmp_path) is None
    assert find_token("typed", {"HOLDFAST_TOKEN": "env"}, tmp_path) == ("typed", "--token")
    assert find_token(None, {"HOLDFAST_TOKEN": "env"}, tmp_path) == ("env", "HOLDFAST_TOKEN")
    assert find_token(None, {}, tmp_path) is None


APP = """
from holdfast import TaskQueue
queue = TaskQueue("sqlite:///of-app.db")
far = TaskQueue("holdfast://hub:8787", token="hf_user_x")
"""


def test_the_store_of_an_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop_of_app.py").write_text(APP)
    done = run_inside(tmp_path, "task", "list", "--app", "shop_of_app:queue")
    assert "there is no SQLite file 'of-app.db' (--app shop_of_app:queue)" in done.said
    found = target(Common(app="shop_of_app:far"))
    assert (found.found.value, found.token, found.is_gateway) == (
        "holdfast://hub:8787",
        "hf_user_x",
        True,
    )
    both = run_inside(
        tmp_path, "--app", "shop_of_app:queue", "task", "list", "--url", "sqlite:///x"
    )
    assert (both.code, "--app names the store too" in both.said) == (2, True)
    assert (
        "did you mean shop_of_app:"
        in run_inside(tmp_path, "stats", "--app", "shop_of_app:quue").said
    )


def test_an_application_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_app.py").write_text("queue = 1\nraise RuntimeError('no settings')\n")
    done = run_inside(tmp_path, "task", "list", "--app", "broken_app:queue")
    assert done.code == 2
    assert "RuntimeError: no settings" in done.said
    assert "broken_app.py" in done.said
    assert "2" in done.said.partition("broken_app.py")[2][:12]
