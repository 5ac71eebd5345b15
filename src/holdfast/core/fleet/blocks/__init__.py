"""Blocks: what keeps commands off hosts, and when."""
