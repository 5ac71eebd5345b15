"""Hints: "look again". They carry no truth; losing one costs a poll, never data."""
