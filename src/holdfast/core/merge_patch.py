"""Merge patches of JSON (RFC 7396)."""

from __future__ import annotations

from typing import Any


def merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7396: fields of the patch replace those of the value, null removes."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), part)
    return merged
