"""What a subscription is about: the objects of its channels, and the filter of what the principal may read.

Promises: a missing object and a foreign one get the same answer. Never: writes to a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.core.access import DenialReason, Denied, Principal, visible_projects
from holdfast.core.channel import Channel, ChannelObject, may_subscribe, topics_for
from holdfast.core.subscription import StreamFilter
from holdfast.gateway.feed.ports import Directory


class Target(NamedTuple):
    """A channel and its object."""

    channel: Channel
    """By the store's id: later another task may get the name that the client gave."""
    found: ChannelObject


MISSING: Final = Denied(DenialReason.PROJECT, "")
"""The answer for an object that does not exist: a client cannot tell it from a foreign one."""


async def find_targets(
    directory: Directory, principal: Principal, channels: Sequence[Channel]
) -> list[Target] | Denied:
    """The objects of the channels, if the principal may read them all."""
    targets = []
    for channel in channels:
        found = await directory.find(channel, principal)
        if found is None:
            return MISSING
        verdict = may_subscribe(principal, channel, found)
        if isinstance(verdict, Denied):
            return verdict
        id = found.topic.partition(":")[2]
        targets.append(Target(msgspec.structs.replace(channel, name=id), found))
    return targets


def filter_for(principal: Principal, targets: Sequence[Target], like: StreamFilter) -> StreamFilter:
    """The filter of a subscription to these targets, with the rest of another filter."""
    topics = frozenset(topic for target in targets for topic in topics_for(principal, target.found))
    return StreamFilter(topics, visible_projects(principal), like.kinds, like.classes, like.query)
