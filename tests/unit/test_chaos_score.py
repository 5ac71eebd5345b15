"""The figures of `make chaos`, from journals of handlers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proof.chaos import journal
from proof.chaos.journal import ACKNOWLEDGED, END, START, Line, Reader
from proof.chaos.score import Phases, Tally, back_after, first_ends, rate, tally


def line(word: str, job: int, *, task: str = "", at: float = 0.0) -> Line:
    return Line(word, job, task or f"task-{job}", 1, 1, int(at * 1e9))


def test_each_job_is_counted_by_its_outcome() -> None:
    lines = [
        *(line(ACKNOWLEDGED, job) for job in range(5)),
        *(line(START, 0), line(END, 0)),
        *(line(START, 1), line(START, 1), line(END, 1)),
        *(line(START, 2), line(START, 2), line(END, 2), line(END, 2)),
        *(line(START, 3, task="a"), line(START, 3, task="b"), line(END, 3)),
        *(line(START, 9), line(END, 9)),  # its enqueue was not acknowledged, but it ran
    ]
    assert tally(lines) == Tally(
        acknowledged=5, never_ended=1, ran_twice=3, handler_ended_twice=1, enqueued_twice=1
    )


def test_a_job_that_ends_twice_counts_once_for_the_rate() -> None:
    lines = [line(END, 1, at=3.0), line(END, 1, at=1.0), line(END, 2, at=2.0)]
    assert first_ends(lines) == [1.0, 2.0]
    assert rate(first_ends(lines), 0.0, 4.0) == 0.5


@pytest.mark.parametrize(
    ("resumes_at", "after"), [(10.0, 0.0), (15.0, 4.9), (19.5, None), (99.0, None)]
)
def test_the_rate_is_back_at_the_first_second_with_ninety_percent(
    resumes_at: float, after: float | None
) -> None:
    """100 a second until the fault at 5 s, which ends at 10 s; the load ends at 20 s."""
    moments = [n / 100 for n in range(2000)]
    ends = [at for at in moments if at < 5.0 or at >= resumes_at]
    phases = Phases(base_from=0.0, struck=5.0, healed=10.0, hushed=20.0)
    assert back_after(ends, phases, base=100.0) == after


def test_a_journal_is_read_as_it_grows_and_only_in_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_PROBE", str(tmp_path))
    monkeypatch.setattr(journal, "_open", {})
    reader = Reader(tmp_path)
    journal.note(ACKNOWLEDGED, [1, 2])
    assert [(each.word, each.job) for each in reader.update()] == [
        (ACKNOWLEDGED, 1),
        (ACKNOWLEDGED, 2),
    ]
    journal.note(START, 1, task="x", attempt=2)
    os.write(journal._open[os.getpid()], b"end 1 x")
    last = reader.update()[-1]
    assert (last.word, last.task, last.attempt, last.pid) == (START, "x", 2, os.getpid())
    os.write(journal._open[os.getpid()], b" 2 7 5\n")
    assert reader.update()[-1] == Line(END, 1, "x", 2, 7, 5)
    os.close(journal._open[os.getpid()])
