"""Derivation of the form of a cascade that visits its elements once: algebra, stabilisation, plan, rewriting, check."""
