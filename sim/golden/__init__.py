"""Golden models: independent, obvious, bit-exact numpy functions for every block."""
