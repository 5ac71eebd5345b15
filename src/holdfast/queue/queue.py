"""The queue: all its parts in one class. The composition root (`holdfast.app`) adds the backend."""

from __future__ import annotations

from holdfast.queue.dead import DeadLetters


class Queue(DeadLetters):
    """Define tasks, enqueue them, run them, look at them, intervene."""
