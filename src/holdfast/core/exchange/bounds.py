"""Bounds of the requests of the exchange, for both sides."""

from __future__ import annotations

from typing import Final

PUSH_MAX: Final = 500
"""Items of a push."""
PULL_MAX: Final = 500
"""Tasks of a pull by name."""
HANDSHAKE_MAX: Final = 5_000
"""Tasks of a handshake."""
