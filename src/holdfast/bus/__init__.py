"""Hints: notifications without data, after which a listener reads the store. A lost hint costs a poll, never
data. An internal package."""
