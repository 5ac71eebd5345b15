"""Subscribers of live feeds and callers of HTTP, in a process of their own."""
