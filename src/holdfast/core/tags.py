"""The tags of a task: names by which lists find it.

Promises: the tags of a task are sorted and have no doubles, so equal sets have equal texts. Every tag that
passed can be searched by the grammar `q`. On the wire of the exchange with nodes they are `labels`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from holdfast.core import codec
from holdfast.core.check import Wrong, check_name, shown
from holdfast.errors import InvalidInput

TAGS_MAX: Final = 100
"""Tags of one task."""
TAG_CHARS_MAX: Final = 100


def check_tags(given: object, *, wrong: Wrong = InvalidInput) -> tuple[str, ...]:
    """The tags that a caller gives as a list, a tuple or a set of names. None: no tags."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple | set | frozenset):
        raise wrong(f"tags is {shown(given)}: give a list of names")
    tags = {check_name("a tag", tag, most=TAG_CHARS_MAX, wrong=wrong) for tag in given}
    if len(tags) > TAGS_MAX:
        raise wrong(f"{len(tags)} tags: a task has at most {TAGS_MAX}")
    return tuple(sorted(map(str, tags)))


def tags_json(tags: tuple[str, ...]) -> str | None:
    """The text that the store keeps. None: no tags."""
    return codec.dumps(list(tags)) if tags else None


@lru_cache(maxsize=1_000)
def read_tags(text: str) -> tuple[str, ...]:
    """The tags of a stored text. Cached, because the tasks of a type often share them."""
    return tuple(codec.loads(text))


def difference(before: tuple[str, ...], after: tuple[str, ...]) -> dict[str, Any]:
    """The data of the event of a change."""
    added, removed = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    return {name: tags for name, tags in (("added", added), ("removed", removed)) if tags}
