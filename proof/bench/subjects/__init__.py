"""What this repository measures itself: Holdfast, and hand-written floors below any queue."""
