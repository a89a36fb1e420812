"""What a manifest says of the machine that a run was recorded on, and of who ran where."""

from __future__ import annotations

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
    cores = manifest.host.get("cores")
    return isinstance(cores, int | float) and cores >= len(manifest.processes) > 0
