"""The tables that a run prints."""

from __future__ import annotations

from proof.bench.bars import Bar
from proof.bench.results import Results
from proof.bench.scenarios import Metric, Scenario
from proof.lab.report import table


def _cell(results: Results, scenario: Scenario, subject: str, metric: Metric) -> str:
    value = results.median(scenario.name, subject, metric.key)
    spread = results.spread(scenario.name, subject, metric.key)
    if value is None or spread is None:
        return "-"
    form = f",.{metric.decimals}f"
    low, high = f"{spread[0]:{form}}", f"{spread[1]:{form}}"
    return f"{value:{form}}" if low == high else f"{value:{form}} ({low}-{high})"


def scenario_table(results: Results, scenario: Scenario) -> str:
    """One scenario: best first, failures below."""
    key = scenario.metrics[0].key
    subjects = list(results.samples.get(scenario.name, {}))
    subjects.sort(
        key=lambda name: results.median(scenario.name, name, key) or 0.0, reverse=scenario.rising
    )
    rows = [
        [name, *(_cell(results, scenario, name, metric) for metric in scenario.metrics)]
        for name in subjects
    ]
    lines = ["", scenario.title, table(["subject", *(m.title for m in scenario.metrics)], rows)]
    failed = results.failures.get(scenario.name, {})
    lines += [f"{name}: FAILED: {why}" for name, why in sorted(failed.items())]
    return "\n".join(lines)


def bars_table(bars: list[Bar]) -> str:
    """The bars: reached, MISSED or not measured."""
    words = {True: "reached", False: "MISSED", None: "-"}
    rows = [[b.scenario, b.bar, b.measured, words[b.reached]] for b in bars]
    return "\nBars\n" + table(["scenario", "bar", "measured", "verdict"], rows)


def full(results: Results, scenarios: list[Scenario], bars: list[Bar]) -> str:
    """The whole report."""
    parts = ["Median (least-greatest) of the rounds. Compare ratios, not absolute figures."]
    parts += [
        scenario_table(results, s)
        for s in scenarios
        if s.name in results.samples or s.name in results.failures
    ]
    parts += [f"\n{name}: left out: {why}" for name, why in sorted(results.skipped.items())]
    return "\n".join([*parts, bars_table(bars)])
