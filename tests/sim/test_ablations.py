"""`python -m proof ablations`: the table of proof.md, exit codes; that ablations fit the product."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from holdfast.sim.campaign import Options, campaign, run_seed
from proof.__main__ import main
from proof.ablations import ABLATIONS, ablated
from proof.ablations.catch import SeedRun, catches
from proof.ablations.kept import KEPT, keep, kept_runs
from proof.ablations.swap import swapped

SMALL = Options(
    hours=0.03,
    nodes=2,
    faults=("crash", "loss"),
    recover_hours=0.3,
    changes=(("traders", ""), ("lock_servers", "0")),
)


def test_a_noticed_ablation_is_a_row_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ablations", "new-fence"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| without | behaviour | seeds until noticed | law that complained first |",
        "|---|---|---|---|",
        "| `new-fence` | a claim keeps the fence of the runner before | 1 | fences rise |",
    ]


def test_an_ablation_that_breaks_no_law_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_: str) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr("proof.ablations.catch.ablated", nothing)
    assert main(["ablations", "new-fence", "--seeds", "1"]) == 1
    assert "| not in 1 | none |" in capsys.readouterr().out


@pytest.mark.parametrize("options", [("sense",), ("--seeds", "0")])
def test_invalid_arguments_are_usage_errors(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ablations", *options])
    assert capsys.readouterr().out == ""


def test_the_cheapest_runs_that_notice_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "seeds.toml"
    file.write_text("fence = [[9, 0.01]]\n")
    catch = keep("majority", 6, file)
    assert catch is not None
    kept = kept_runs(file)
    assert kept["fence"] == [SeedRun(9, 0.01)]
    assert 1 < len(kept["majority"]) <= KEPT
    found = {each.run: each.verdict.steps for each in catches("majority", kept["majority"])}
    assert [found[run] for run in kept["majority"]] == sorted(found.values())


def test_a_seed_with_which_the_complete_product_fails_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would notice an ablation that changes nothing."""
    file = tmp_path / "seeds.toml"
    broken = partial(run_seed, around=partial(ablated, "new-fence"))
    monkeypatch.setattr("proof.ablations.kept.run_seed", broken)
    assert keep("majority", 1, file) is None
    assert kept_runs(file) == {}


def test_every_ablation_has_kept_runs() -> None:
    assert list(kept_runs()) == list(ABLATIONS)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_campaign_runs_every_seed_inside_the_context(processes: int) -> None:
    around = partial(ablated, "new-fence")
    report = campaign(range(3, 5), SMALL, processes=processes, around=around)
    assert [next(iter(verdict.broken)) for verdict in report.bad] == ["fences rise"] * 2
    assert campaign(range(3, 5), SMALL, processes=processes).is_good


@pytest.mark.parametrize("name", sorted(ABLATIONS))
def test_a_replacement_can_be_called_like_the_original(name: str) -> None:
    """A replacement that fails on every call would be noticed too, but not for its safeguard."""
    for owner, attribute, replacement in ABLATIONS[name].make():
        original = getattr(owner, attribute)
        if not inspect.isfunction(original) or not inspect.isfunction(replacement):
            continue
        for positional, named in calls_of(original):
            inspect.signature(replacement).bind(*positional, **named)


def calls_of(function: Callable[..., object]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The arguments of a call with every parameter, and of one with the required parameters only."""
    parameters = inspect.signature(function).parameters.values()
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    for given in (list(parameters), required):
        yield (
            [each.name for each in given if each.kind is each.POSITIONAL_OR_KEYWORD],
            {each.name: "" for each in given if each.kind is each.KEYWORD_ONLY},
        )


def test_an_ablation_that_does_not_fit_the_product_is_an_error() -> None:
    """It must not count as noticed."""

    def gone() -> AbstractContextManager[None]:
        return swapped([(Options, "no_such_attribute", None)])

    with pytest.raises(AttributeError, match="no_such_attribute"):
        run_seed(3, SMALL, around=gone)
