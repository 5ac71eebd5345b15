"""Retries of a call: exponential pauses, reproducible jitter, and a limit.

    from holdfast.retry import retry

docs/howto/retry.md lists every option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.primitives.retry import (
        FAMILIES,
        Attempt,
        RetryBudget,
        StopReason,
        aretry,
        aretry_with_log,
        is_retryable,
        retry,
        retry_with_log,
        retrying,
    )

__all__ = [
    "FAMILIES",
    "Attempt",
    "RetryBudget",
    "StopReason",
    "aretry",
    "aretry_with_log",
    "is_retryable",
    "retry",
    "retry_with_log",
    "retrying",
]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"holdfast.primitives.retry": __all__})
