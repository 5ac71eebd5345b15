"""Floors: where scans start, and for how long a floor is trusted."""

from __future__ import annotations

from holdfast.store.fast.floors import (
    CHEAP_SECONDS,
    FRONT,
    LONGEST_SECONDS,
    WORTH,
    Floors,
    Place,
)


class Watch:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.reading = 100.0

    def __call__(self) -> float:
        return self.reading


def looked(floors: Floors, watch: Watch, *, took: float, nothing_below: float) -> Place:
    """One scan; returns where it started."""
    start, begun = floors.start("lane"), watch()
    watch.reading += took
    floors.learn("lane", start=start, nothing_below=(nothing_below, 0), started_at=begun)
    return start


def test_the_first_look_is_from_the_front_and_the_next_from_where_it_ended() -> None:
    watch = Watch()
    floors = Floors(watch)
    assert looked(floors, watch, took=1.0, nothing_below=50.0) == FRONT
    assert looked(floors, watch, took=0.001, nothing_below=60.0) == (50.0, 0)
    assert floors.start("lane") == (60.0, 0)
    assert floors.start("another lane") == FRONT


def test_a_floor_never_falls_while_it_is_believed() -> None:
    watch = Watch()
    floors = Floors(watch)
    looked(floors, watch, took=1.0, nothing_below=50.0)
    looked(floors, watch, took=0.0, nothing_below=40.0)
    assert floors.start("lane") == (50.0, 0)


def test_looks_from_the_front_take_a_small_share_of_the_time() -> None:
    watch = Watch()
    floors = Floors(watch)
    looked(floors, watch, took=0.05, nothing_below=50.0)
    watch.reading += 0.05 * WORTH - 0.001
    assert floors.start("lane") == (50.0, 0)
    watch.reading += 0.002
    assert floors.start("lane") == FRONT


def test_the_wait_is_bounded_however_long_a_scan_took() -> None:
    watch = Watch()
    floors = Floors(watch)
    looked(floors, watch, took=1_000.0, nothing_below=50.0)
    watch.reading += LONGEST_SECONDS
    assert floors.start("lane") == FRONT


def test_bounded_looks_do_not_put_off_the_next_one_from_the_front() -> None:
    watch = Watch()
    floors = Floors(watch)
    looked(floors, watch, took=1.0, nothing_below=50.0)
    for _ in range(100):
        if looked(floors, watch, took=WORTH / 50, nothing_below=60.0) == FRONT:
            break
    else:
        raise AssertionError("never looked from the front again")


def test_distrust_affects_only_scans_that_are_cheap_to_repeat() -> None:
    watch = Watch()
    floors = Floors(watch)
    looked(floors, watch, took=CHEAP_SECONDS / 2, nothing_below=50.0)
    floors.distrust()
    assert floors.start("lane") == FRONT
    looked(floors, watch, took=CHEAP_SECONDS * 2, nothing_below=50.0)
    floors.distrust()
    assert floors.start("lane") == (50.0, 0)
    floors.forget()
    assert floors.start("lane") == FRONT
