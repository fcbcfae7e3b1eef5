"""Better than by hand: schedules found for BERT-base attention beside FuseMax's, and what is proved about them."""

import dataclasses

from accel.configuration import load_study
from mapping.beyond import Machine, beyond, study_baseline

study = load_study("published")
study = dataclasses.replace(study, models={"BERT": study.models["BERT"]}, lengths=(1024, 4096))
machine = Machine.of(study)

for point in beyond(machine, study_baseline(study, machine)):
    length, hand = point.baseline.workload.keys, point.baseline.reference
    print(
        f"{length:6,} tokens: by hand {hand.latency_cycles:13,.0f} cycles, found {point.result.latency_cycles:13,.0f}, "
        f"none below {point.lower_bound_cycles:13,.0f}; {point.speedup:.3f}x, {point.energy_ratio:.3f} of the energy"
    )
