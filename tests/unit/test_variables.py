"""Variables of the environment with their value in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.client import Client
from holdfast.config import find_url
from holdfast.errors import BadConfig
from holdfast.gateway.settings import admin_token
from holdfast.variables import SECRET_CHARS_MAX, variable


def test_a_value_counts_more_than_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("  from the file\n")
    environ = {"HOLDFAST_X_FILE": str(file)}
    assert variable({}, "HOLDFAST_X") is None
    assert variable(environ, "HOLDFAST_X") == "from the file"
    assert variable({**environ, "HOLDFAST_X": "direct"}, "HOLDFAST_X") == "direct"


@pytest.mark.parametrize(
    "content", [b"", b"  \n", b"\xff\xfe", b"x" * (SECRET_CHARS_MAX + 1), None]
)
def test_a_file_without_a_value_is_refused_by_the_name_of_its_variable(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "hidden-name"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadConfig, match="HOLDFAST_X_FILE") as caught:
        variable({"HOLDFAST_X_FILE": str(file)}, "HOLDFAST_X")
    assert "hidden-name" not in str(caught.value)


def test_the_url_the_tokens_of_the_server_and_of_the_client_come_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, token = tmp_path / "url", tmp_path / "token"
    url.write_text("postgresql://u:secret@db/x\n")
    token.write_text("hf_admin_" + "t" * 40 + "\n")
    assert find_url(None, {"HOLDFAST_URL_FILE": str(url)}, tmp_path).value.endswith("@db/x")
    assert admin_token({"HOLDFAST_ADMIN_TOKEN_FILE": str(token)}) == token.read_text().strip()
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(tmp_path / "missing"))
    with pytest.raises(BadConfig, match="HOLDFAST_TOKEN_FILE"):
        Client("http://127.0.0.1:1")
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(token))
    Client("http://127.0.0.1:1")
