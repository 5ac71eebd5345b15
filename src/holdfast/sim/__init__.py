"""The simulator: the product's own code in virtual time, under faults that a seed draws, judged by laws."""
