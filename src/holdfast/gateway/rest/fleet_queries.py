"""Parameters that calls of the fleet share."""

from __future__ import annotations

import msgspec

from holdfast.gateway.rest.route import Paged


class OfProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The project of the object. Without it, that of the token."""

    project: str | None = None


class PagedOfProject(Paged, frozen=True, forbid_unknown_fields=True):
    project: str | None = None


class SearchOfProject(PagedOfProject, frozen=True, forbid_unknown_fields=True):
    """`q` as in `rest/searching.py`."""

    q: str = ""
