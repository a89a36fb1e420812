"""Buffer debloating of a run: buffer size over time, and data in flight against the target; one
line for each gate."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from flinknet.results import DebloatedGate, DebloatingSample
from flinknet.units import format_duration_ns, human_bytes, human_duration

from .small_plots import sparkline

PLOT_WIDTH = 32
GATES_SHOWN = 8


def debloating_lines(name: str, gates: tuple[DebloatedGate, ...]) -> Iterator[str]:
    """One line for each gate that was evaluated.

    Args:
        name: of the setting, empty if there is one only.
    """
    evaluated = [gate for gate in gates if gate.samples]
    where = f"{name}: buffers" if name else "Buffers"
    for gate in evaluated[:GATES_SHOWN]:
        sizes = [each.buffer_size_bytes for each in gate.samples]
        yield (
            f"{where} of {gate.name}: {sparkline(sizes, PLOT_WIDTH, max(sizes))}"
            f" {human_bytes(sizes[0])} … {human_bytes(sizes[-1])}; {_in_flight(gate)}"
        )
    hidden = len(evaluated) - GATES_SHOWN
    if hidden > 0:
        yield f"{where} of {hidden} more gates: see debloating in the JSON."


def _in_flight(gate: DebloatedGate) -> str:
    """Data in flight in the second half of the run, against the target."""
    late: tuple[DebloatingSample, ...] = gate.samples[len(gate.samples) // 2 :]
    measured = [each for each in late if each.in_flight_bytes and each.throughput_bytes_per_s]
    target = f"target {format_duration_ns(gate.target_ns, separator=' ')}"
    if len(measured) < len(late) / 2:
        return f"nothing in flight most of the time ({target})."
    in_flight_bytes = median(each.in_flight_bytes for each in measured)
    consume_ns = median(each.time_to_consume_ns for each in measured)
    # estimates are whole milliseconds, as in Flink
    took = human_duration(consume_ns) if consume_ns else "less than 1 ms"
    return f"{human_bytes(in_flight_bytes)} in flight, consumed in {took} ({target})."
