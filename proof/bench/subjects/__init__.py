"""Subjects of this repository: Holdfast, and hand-written floors."""
