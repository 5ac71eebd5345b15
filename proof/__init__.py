"""Programs that measure and stress Holdfast: `bench`, `chaos` and `endurance` over one `lab`."""
