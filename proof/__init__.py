"""Proof that Holdfast holds: `bench`, `chaos` and `endurance` over one `lab`."""
