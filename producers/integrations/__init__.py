"""Holter in the loops of other libraries. Each module needs its library, and is imported by nothing else."""
