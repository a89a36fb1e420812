"""What a manifest says of the machine that a run was recorded on, and of who ran where."""

from __future__ import annotations

from typing import Any

from flinknet.trace import RunManifest


def places(manifest: RunManifest) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where producers and consumers ran, if some of them shared a process."""
    if not any(each.is_local for each in manifest.channels):
        return (), ()
    processes = [process.name for process in manifest.processes]
    producers = {each.producer: each.producer_process for each in manifest.channels}
    consumers = {each.consumer: each.consumer_process for each in manifest.channels}
    return (
        tuple(processes.index(producers[each]) for each in sorted(producers)),
        tuple(processes.index(consumers[each]) for each in sorted(consumers)),
    )


def receivers(manifest: RunManifest) -> dict[int, int]:
    """Channel to index of the TaskManager of its consumer, of those that have consumers."""
    names = sorted({each.consumer_process for each in manifest.channels})
    return {each.index: names.index(each.consumer_process) for each in manifest.channels}


def may_poll(manifest: RunManifest) -> bool:
    """Whether there was a core for each TaskManager; only then they poll."""
    return _number(manifest.host.get("cores")) >= len(manifest.processes)


def bystanders(manifest: RunManifest) -> dict[str, Any]:
    """What else ran while a run was recorded, as Delays has it.

    Where there are more cores than TaskManagers, that is taken to have run on all cores alike.
    """
    share, slice_ns, cores = (
        _number(manifest.host.get(name)) for name in ("beside_share", "beside_slice_ns", "cores")
    )
    if not share or not slice_ns or not cores:
        return {}
    on_their_cores = min(len(manifest.processes) / cores, 1.0)
    return {
        "beside_share": share * on_their_cores,
        "beside_slice_ns": slice_ns,
        "cores": int(cores),
    }


def _number(fact: object) -> float:
    """A fact about a host that is a number above 0; else 0."""
    return float(fact) if isinstance(fact, int | float) and fact > 0 else 0.0
