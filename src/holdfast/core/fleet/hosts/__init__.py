"""Hosts: entries, folded names, selectors, and lists to import."""
