"""The state folder: which folders an agent takes for its own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.agent.state import LOCK, StateFolder
from holdfast.errors import BadConfig


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_or_empty_folder_is_closed_for_others(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "state"
    if exists:
        path.mkdir(mode=0o755)
    folder = StateFolder(path)
    folder.take()
    assert mode(path) == 0o700
    folder.leave()
    path.chmod(0o755)
    folder.take()
    assert mode(path) == 0o700, "it has a lock, so it is of an agent"
    folder.leave()


def test_a_folder_of_others_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    tmp_path.chmod(0o1777)
    with pytest.raises(BadConfig, match="not of an agent"):
        StateFolder(tmp_path).take()
    assert mode(tmp_path) == 0o1777
    assert not (tmp_path / LOCK).exists()


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(BadConfig, match="another user"):
        StateFolder(tmp_path).take()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "state"
    victim.write_text("precious")
    path.mkdir()
    (path / LOCK).symlink_to(victim)
    with pytest.raises(BadConfig):
        StateFolder(path).take()
    assert victim.read_text() == "precious"
