"""`python -m proof ablations`: the table of proof.md, exit codes, the smallest run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pytest

from holdfast.sim.campaign import Options, campaign
from proof.__main__ import main
from proof.ablations import ablated

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


@pytest.mark.parametrize("processes", [1, 2])
def test_a_campaign_runs_every_seed_inside_the_context(processes: int) -> None:
    around = partial(ablated, "new-fence")
    report = campaign(range(3, 5), SMALL, processes=processes, around=around)
    assert [next(iter(verdict.broken)) for verdict in report.bad] == ["fences rise"] * 2
    assert campaign(range(3, 5), SMALL, processes=processes).is_good
