"""The statements of this package."""

from __future__ import annotations

from typing import Final

from holdfast.store.script import statements_of

own: Final = statements_of("holdfast.fleet.jobs")
"""Names the statements of this package."""
