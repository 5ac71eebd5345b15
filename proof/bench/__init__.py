"""Holdfast and its peers, measured side by side: ``python -m proof bench``."""
