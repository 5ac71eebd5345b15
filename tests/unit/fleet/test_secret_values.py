"""Values of secrets: where they are read, which versions count, and that no error shows one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import CommandRefused
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.errors import InvalidInput
from holdfast.fleet.secret_values import GIVEN_MAX, SecretSource, SecretValues

VALUE = "correct horse"
JOB = ("shop", "deploy")
"""The project and the command type of a job."""


def values(environ: dict[str, str] | None = None, **sources: SecretSource) -> SecretValues:
    return SecretValues(sources, {"A": VALUE} if environ is None else environ)


def test_a_job_is_bound_to_the_version_that_there_is() -> None:
    secrets = values(a=SecretSource(env="A", version=4))
    assert secrets.pin({"X": SecretRef("a"), "Y": SecretRef("a", 4)}) == {
        "X": SecretRef("a", 4),
        "Y": SecretRef("a", 4),
    }
    with pytest.raises(InvalidInput, match="'b', which the server does not have: it has a"):
        secrets.pin({"X": SecretRef("b")})
    with pytest.raises(InvalidInput, match=r"secrets\.X\.version is 3: 'a' has the version 4"):
        secrets.pin({"X": SecretRef("a", 3)})


def test_values_come_from_variables_and_files(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("line one\nline two\n")
    secrets = values(a=SecretSource(env="A"), b=SecretSource(file=str(tmp_path / "b")))
    refs = {"X": SecretRef("a", 1), "Y": SecretRef("b", 1)}
    assert secrets.environment(refs, *JOB) == {"X": VALUE, "Y": "line one\nline two"}
    assert secrets.known(refs) == [VALUE, "line one\nline two"]


def test_a_run_gets_only_the_version_of_its_job() -> None:
    secrets = values(a=SecretSource(env="A", version=2))
    with pytest.raises(CommandRefused, match="has version 2 now, and the job was made with 1"):
        secrets.environment({"X": SecretRef("a", 1)}, *JOB)


@pytest.mark.parametrize(
    ("source", "environ"),
    [
        (SecretSource(env="A"), {}),
        (SecretSource(file="/proc/none/such"), {}),
        (SecretSource(env="A"), {"A": "x"}),
        (SecretSource(env="A"), {"A": "a\0secret"}),
        (SecretSource(env="A"), {"A": "secret" * 10_000}),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_and_not_shown(
    source: SecretSource, environ: dict[str, str]
) -> None:
    secrets = values(environ, a=source)
    with pytest.raises(CommandRefused, match="secret 'a'") as caught:
        secrets.environment({"X": SecretRef("a", 1)}, *JOB)
    assert "/proc" not in str(caught.value)
    assert environ.get("A", "none") not in str(caught.value)
    assert secrets.known({"X": SecretRef("a", 1)}) == []


def test_output_is_cleared_of_what_a_run_got_before_the_value_changed() -> None:
    environ = {"A": VALUE}
    secrets = values(environ, a=SecretSource(env="A"))
    refs = {"X": SecretRef("a", 1)}
    secrets.environment(refs, *JOB)
    environ["A"] = "battery staple"
    assert secrets.known(refs) == [VALUE, "battery staple"]
    del environ["A"]
    assert secrets.known(refs) == [VALUE]


def test_output_is_cleared_of_every_version_that_a_run_got() -> None:
    """The job may name a newer version by then, and later runs have got other values."""
    environ = {"A": VALUE}
    secrets = values(environ, a=SecretSource(env="A"))
    secrets.environment({"X": SecretRef("a", 1)}, *JOB)
    environ["A"] = "another-value"
    secrets.environment({"X": SecretRef("a", 1)}, *JOB)
    environ["A"] = "a-third-value"
    known = secrets.known({"X": SecretRef("a", 2)})
    assert known == [VALUE, "another-value", "a-third-value"]
    for n in range(2 * GIVEN_MAX):
        environ["A"] = f"value-number-{n}"
        secrets.environment({"X": SecretRef("a", 1)}, *JOB)
    assert len(secrets.known({"X": SecretRef("a", 2)})) == GIVEN_MAX


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        ({}, None),
        ({"projects": ("shop", "ops"), "command_types": ("deploy",)}, None),
        ({"projects": ("ops",)}, "not for jobs of the project 'shop'"),
        ({"command_types": ("restart",)}, "not for commands of the type 'deploy'"),
        ({"projects": ("shop",), "command_types": ("restart",)}, "of the type 'deploy'"),
    ],
)
def test_a_run_gets_only_secrets_whose_scope_names_its_job(
    scope: dict[str, Any], refused: str | None
) -> None:
    secrets = values(a=SecretSource(env="A", **scope))
    refs = {"X": SecretRef("a", 1)}
    if refused is None:
        assert secrets.environment(refs, *JOB) == {"X": VALUE}
        return
    with pytest.raises(CommandRefused, match=refused) as error:
        secrets.environment(refs, *JOB)
    assert "ops" not in str(error.value)
    assert "restart" not in str(error.value)
