"""Derive: from the definition of attention to its one-pass form, and a normalisation that has none."""

from accel import load_cascade
from mapping import derive

found = derive(load_cascade("attention-naive"))
print(f"{found.source.name}: {found.passes_before} -> {found.passes_after} passes over {found.rank}")
for step in found.steps:
    print(f"{step.rule} at {step.einsum}: {step.condition}")
print(found.cascade)

blocked = derive(load_cascade("sparsemax"))
for cause in blocked.blocked:
    print(f"{blocked.source.name} at {cause.einsum}: {cause.reason}")
