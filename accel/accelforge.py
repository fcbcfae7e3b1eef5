"""Writes a cascade as a workload of AccelForge, so that its user can cross-check a schedule there.

AccelForge (github.com/Accelergy-Project/accelforge) counts one computation for each point of an Einsum and knows
neither what it computes nor filters, running values or partitioned indices. What it cannot say is refused; operators
are lost, and the head of the text says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accel import spec
from accel.cascade import Cascade, Einsum
from accel.errors import InputError
from accel.expression import Access, Index
from accel.workload import Workload

__all__ = ["accelforge_workload"]

_INSTANCE_RANKS = "hbinstxyz"


def accelforge_workload(
    cascade: Cascade, workload: Workload, width_bits: int = 16, sizes: Mapping[str, int] | None = None
) -> str:
    """Return the text of an AccelForge workload file.

    Batch elements and key/value heads become one further rank of every tensor. In each Einsum the first operand is
    called ``input``, and the second of a contraction ``weight``: the names that AccelForge's architectures ask for.

    Parameters
    ----------
    cascade : Cascade
        Einsums over plain ranks, without filters and running values.
    workload : Workload
        Sizes.
    width_bits : int
        Width of every value.
    sizes : mapping of str to int, optional
        Sizes of ranks, in capitals, that an attention does not have, or in place of its own.

    Raises
    ------
    InputError
        AccelForge has no notation for an Einsum of the cascade, or a rank has no size.
    """
    for einsum in cascade.einsums:
        _refuse(cascade, einsum)
    all_sizes = _sizes(cascade, {**workload.sizes, **(sizes or {})})
    ranks = {rank for einsum in cascade.einsums for rank in einsum.ranks}
    instance = next(rank for rank in _INSTANCE_RANKS if rank not in ranks)
    content: Mapping[str, Any] = {
        "workload": {
            "rank_sizes": {instance.upper(): workload.instances, **all_sizes},
            "bits_per_value": {"All": width_bits},
            "persistent_tensors": "Nothing",
            "einsums": [_einsum(each, instance) for each in cascade.einsums],
        },
        "renames": {
            "einsums": [
                {
                    "name": "default",
                    "tensor_accesses": [
                        {"name": "input", "source": "Inputs"},
                        {"name": "output", "source": "Outputs", "expected_count": 1},
                        {"name": "weight", "source": "Nothing"},
                    ],
                }
            ]
        },
    }
    lines = [
        f"# Cascade {cascade.name} for AccelForge: {workload.name}, batch {workload.batch}, {workload.heads} heads,",
        f"# {workload.kv_heads} key/value heads, {workload.queries} queries, {workload.keys} keys.",
        "# Each point of an Einsum counts as one computation there, whatever it computes. The cascade says:",
        *(f"#   {einsum}" for einsum in cascade.einsums),
    ]
    return "\n".join(lines) + "\n" + spec.dump(content)


def _refuse(cascade: Cascade, einsum: Einsum) -> None:
    """Raise an error for what AccelForge cannot say."""

    def error(what: str, hint: str) -> InputError:
        return InputError(
            f"cascade {cascade.name}: Einsum {einsum.name} must be one that AccelForge can say, but {what}",
            hint=hint,
            place=einsum.place,
        )

    if einsum.is_initial or einsum.iterative_rank is not None:
        raise error("it is a step of a running value", "export a form without running values, such as attention-3pass")
    if einsum.conditions:
        raise error(f"it has the filter {', '.join(map(str, einsum.conditions))}", "export the cascade without masks")
    for access in (einsum.output, *einsum.reads):
        odd = next((index for index in access.indices if not _is_plain(index)), None)
        if odd is not None:
            raise error(f"{access.tensor} has the index {odd}", "export a form whose indices are plain ranks")
    if not any(access.indices for access in einsum.reads):
        raise error("it reads no tensor with ranks", "leave out constants")


def _is_plain(index: Index) -> bool:
    return len(index.ranks) == 1 and str(index) == index.ranks[0]


def _sizes(cascade: Cascade, known: Mapping[str, int]) -> dict[str, int]:
    wanted = dict.fromkeys(rank.upper() for einsum in cascade.einsums for rank in einsum.ranks)
    for name in wanted:
        if name not in known:
            raise InputError(
                f"cascade {cascade.name}: rank {name.lower()} must have a size, but only {', '.join(known)} have",
                hint=f"add --size {name}=SIZE",
            )
    return {name: known[name] for name in wanted}


def _einsum(einsum: Einsum, instance: str) -> dict[str, Any]:
    operands = list(dict.fromkeys(access for access in einsum.reads if access.indices))
    names = [access.tensor for access in operands]
    text = f"{_access(einsum.output, instance)} = {' * '.join(_access(each, instance) for each in operands)}"
    reduced = set(einsum.reduction.ranks) if einsum.reduction is not None else set()
    contracts = len(operands) > 1 and bool(reduced & set(operands[0].ranks) & set(operands[1].ranks))
    return {"einsum": text, "renames": {"input": names[0], "weight": names[1] if contracts else "Nothing"}}


def _access(access: Access, instance: str) -> str:
    return f"{access.tensor}[{', '.join((instance, *(str(index) for index in access.indices)))}]"
