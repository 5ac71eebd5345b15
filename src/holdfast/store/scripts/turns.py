"""Turns inside a transaction: which tasks of a fair type start in the place of those that were first in line.

A claim finds candidates in the order of the line. For a fair type they only say how many tasks of a lane may
start; `core/turns.py` says of which keys. Promises: the turn of a lane is locked while it is dealt, and it is
written with the tasks that it starts. A chosen task that another transaction holds is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple, TypeAlias

from holdfast.core.task import Task
from holdfast.core.turns import KEYS_MAX, WEIGHT_MAX, Line, Turn, deal
from holdfast.store.script import Script, StatementCall, call, call_rows

BRIEF_MILLISECONDS: Final = "200"
"""Lock timeout for turns and limits. Only short store transactions lock them, each until its commit is on
disk."""
READY: Final = ""
"""The gate of the lanes of tasks that wait at none."""
NEXT: Final = "\x01"
"""Behind a key it makes the least text after the key. Keys have no such character."""


class Lane(NamedTuple):
    """Tasks whose keys take turns."""

    type: str
    gate: str
    queue: str
    project: str
    priority: int


Turns: TypeAlias = dict[Lane, Turn]


def lane_of(task: Task) -> Lane:
    return Lane(task.type, task.gate or READY, task.queue, task.project, int(task.priority))


def slots_of(tasks: Iterable[Task]) -> Counter[Lane]:
    """How many of these tasks each lane has. Tasks of types that are not fair do not count."""
    return Counter(lane_of(task) for task in tasks if task.fair_key is not None)


def read_slots(ids: list[str]) -> Script[dict[Lane, int]]:
    """As `slots_of`, for ids of ready tasks of fair types."""
    rows = yield call("fair_slots", ids=ids)
    return {Lane(row[0], READY, *row[1:4]): row[4] for row in rows}


def lock(lanes: Iterable[Lane], now: float, *, wait: bool = True) -> Script[Turns]:
    """Locks the turns of these lanes. Without `wait`, skips those that another transaction holds."""
    wanted = sorted(lanes)
    rows = (yield call_rows("lock_turns" if wait else "lock_free_turns", [*wanted])) or []
    turns = _turns(rows)
    missing: list[tuple[object, ...]] = [lane for lane in wanted if lane not in turns]
    if wait and missing:
        yield call_rows("ensure_turns", missing, now=now)
        turns |= _turns((yield call_rows("lock_turns", missing)))
    return turns


def _turns(rows: Iterable[tuple[object, ...]]) -> Turns:
    return {Lane(*row[:5]): Turn(*row[5:]) for row in rows}  # type: ignore[arg-type]


def chosen(slots: Mapping[Lane, int], turns: Turns, now: float) -> Script[list[str]]:
    """The ids of the tasks that start in these lanes, in order, as many as there are slots. Moves the
    turns. Parked tasks are chosen whatever their due time, as they leave their gate in any case."""
    ids: list[str] = []
    for lane, turn in list(turns.items()):
        of_lane, turns[lane] = yield from _of_lane(lane, turn, slots[lane], now)
        ids += of_lane
    if turns:
        yield call_rows("write_turns", [(*lane, *turn) for lane, turn in turns.items()], now=now)
    return ids


def in_turn(tasks: list[Task], now: float) -> Script[list[Task]]:
    """The tasks that start in the place of these candidates, which are locked."""
    slots = slots_of(tasks)
    if not slots:
        return tasks
    yield call("wait_briefly", milliseconds=BRIEF_MILLISECONDS)
    turns = yield from lock(slots, now)
    ids = yield from chosen(slots, turns, now)
    started: list[Task] = yield call("lock_queued", ids=sorted(ids))
    return in_order([task for task in tasks if task.fair_key is None] + started, ids)


def in_order(tasks: list[Task], ids: Sequence[str]) -> list[Task]:
    """Locked tasks by priority. Within one, those of `ids` come in that order: the limits that they share
    judge them in turn."""
    nth = {task_id: n for n, task_id in enumerate(ids)}
    return sorted(tasks, key=lambda task: (task.priority, nth.get(task.id, -1)))


def _of_lane(lane: Lane, turn: Turn, slots: int, now: float) -> Script[tuple[list[str], Turn]]:
    due = now if lane.gate == READY else inf
    lines, last = yield from _lines(lane, turn, slots, due)
    heads: dict[str, list[str]] = {}
    while True:
        dealt = deal(turn, lines, slots)
        wanted = Counter(dealt.keys)
        unread = [(key, n) for key, n in wanted.items() if n > len(heads.get(key, ()))]
        if not unread:
            break
        heads |= {key: [] for key, _ in unread}
        for key, task_id in (yield _at("fair_heads", lane, unread, due=due)):
            heads[key].append(task_id)
        # A line that turns out to be short passes its slots on: deal again with what is known.
        short = {key: len(heads[key]) for key, n in unread if len(heads[key]) < n}
        lines = [line._replace(ready=short.get(line.key, line.ready)) for line in lines]
    lines_left = {key: iter(line) for key, line in heads.items()}
    ids = [next(lines_left[key]) for key in dealt.keys]
    if last is not None and len(ids) < slots:
        return ids, Turn(last, WEIGHT_MAX)
    return ids, dealt.turn


def _lines(lane: Lane, turn: Turn, slots: int, due: float) -> Script[tuple[list[Line], str | None]]:
    """The lines that may start a task, from the one whose turn it is: as many as there are slots, or all. The
    second value is the last key of a search that ended at `KEYS_MAX`: its lines start one turn each, and the
    next claim goes on behind them."""
    lines: list[Line] = []
    enough = slots + 1  # The first line may have started all tasks of its turn.
    first, is_second_half, looked = turn.key, not turn.key, 0
    while len(lines) < enough:
        most = min(enough, KEYS_MAX - looked)
        if most < 1:
            one_turn = [line._replace(ready=min(slots, line.weight)) for line in lines]
            return sorted(one_turn), first[:-1]
        rows = yield _at("fair_keys", lane, None, due=due, first=first, most=most)
        for key, weight, is_ready in rows:
            if is_second_half and turn.key and key >= turn.key:
                return sorted(lines), None
            if is_ready and len(lines) < enough:
                lines.append(Line(key, weight, slots))
        looked += len(rows)
        if len(rows) == most:
            first = rows[-1][0] + NEXT
        elif is_second_half:
            break
        else:
            first, is_second_half = "", True
    return sorted(lines), None


def _at(
    statement: str, lane: Lane, rows: list[tuple[str, int]] | None, **params: object
) -> StatementCall:
    return StatementCall(statement, {**lane._asdict(), **params}, [*rows] if rows else None)
