"""The tests of holdfast; README.md says which folder holds what."""
