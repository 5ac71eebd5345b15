"""Nouns after a number, in sentences for people."""

from __future__ import annotations


def noun_for(count: int, noun: str) -> str:
    """The noun after this number: 'task' after 1, else 'tasks'."""
    return noun if count == 1 else f"{noun}s"
