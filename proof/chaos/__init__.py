"""Real processes on their worst day: Holdfast and its peers, side by side (`make chaos`)."""
