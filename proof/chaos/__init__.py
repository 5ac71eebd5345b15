"""Faults on real processes: Holdfast and its peers, side by side (`make chaos`)."""
