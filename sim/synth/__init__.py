"""``einrtl synth``: what a block costs, found by synthesis, by toggles of its cells, or by a fitted model."""
