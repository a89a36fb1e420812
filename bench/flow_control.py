"""flow_control: what credit costs, next to the flow control before Flink 1.5.

The same stack, tasks and link in both modes, in the simulator: the numbers are the protocol's own
and do not depend on the machine. Times count from the first data buffer that leaves.

    python bench/flow_control.py [--latency 1ms] [--floating 8] [--exclusive 2]

With --sockets it asks over real sockets whether the default buffers (2 exclusive ones for each
channel, 8 floating) give credit the throughput of no credit, as Flink's documentation says: runs
of `flinknet bench` at the highest rate, both modes in turns, and the ratio of each round.

    python bench/flow_control.py --sockets [--rounds 10] [--seconds 2] [--seed 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from statistics import median

from bench.measure import print_table, rate, rate_per_processor, ratio, run_in_turns
from flinknet.config import (
    CREDIT,
    FLOW_CONTROLS,
    TCP,
    NetworkConfig,
    RecordSize,
    Scenario,
    SlowConsumer,
    WorkloadConfig,
)
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.simulator.cluster import START_NS, TYPICAL_COSTS
from flinknet.simulator.link import LinkSettings
from flinknet.units import human_duration, parse_duration_ns
from tests.simulated_scenario import cluster_of

RECORD_BYTES = 1000
BURST_RECORDS = 20_000
SLOW_RATE_PER_S = 10_000
SOCKETS = LinkSettings(capacity_bytes=1 << 20)
"""Buffers of both sockets; without credit the writer waits when these are full, too."""

DEFAULTS = NetworkConfig()

WINDOW_BUFFERS = 16
"""Full speed is the best rate over so many buffers."""


ROUND_TRIPS_SHOWN = 10

CASES = {
    "1 channel, 100 B": ("--record-size", "100b"),
    "1 channel, 32 KiB": ("--record-size", "32kb"),
    "1 channel, 100 B, timeout 0": ("--record-size", "100b", "--buffer-timeout", "0"),
    "4 x 4 channels, 100 B": ("--record-size", "100b", "--producers", "4", "--consumers", "4"),
}
"""Of the comparison over sockets."""


class Messages:
    """A probe that keeps of each message what is measured: (instant, point, kind, is data)."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int, bool]] = []

    def record(
        self, at_ns: int, _channel: int, point: int, kind: int, data_type: int, *_: int
    ) -> None:
        """Note one event."""
        self.seen.append((at_ns - START_NS, point, kind, kind == 0 and data_type == 1))

    def count(self, is_wanted: Callable[[int, int, bool], bool]) -> int:
        """How many there are of a kind."""
        return sum(is_wanted(point, kind, is_data) for _, point, kind, is_data in self.seen)

    def instants(self, wanted_point: int) -> Iterator[int]:
        """When data buffers passed a point, or when a writer's point was noted."""
        for at_ns, point, _, is_data in self.seen:
            if point == wanted_point and (is_data or point >= TracePoint.WRITER_WAITS):
                yield at_ns


def run(
    flow_control: str,
    latency_ns: int,
    *,
    rate_per_s: float,
    slow: tuple[SlowConsumer, ...],
    network: NetworkConfig = DEFAULTS,
) -> Messages:
    """One producer and one consumer over a link with this latency, to the end."""
    messages = Messages()
    scenario = Scenario(
        network=network,
        workload=WorkloadConfig(
            rate_per_s=rate_per_s,
            record_size=RecordSize(RECORD_BYTES, RECORD_BYTES),
            records=BURST_RECORDS,
            slow_consumers=slow,
        ),
        flow_control=flow_control,
    )
    costs = replace(TYPICAL_COSTS, transit_ns=latency_ns + TYPICAL_COSTS.send_ns_per_message)
    cluster_of(scenario, costs, probes=(messages, messages), link=SOCKETS).run_until_idle()
    return messages


def add_credits_per_buffer(burst: Messages) -> float:
    """AddCredit messages for each data buffer that was sent."""
    credits = burst.count(
        lambda point, kind, _: kind == MessageKind.ADD_CREDIT and point == TracePoint.SENT
    )
    return credits / burst.count(lambda point, _, is_data: is_data and point == TracePoint.SENT)


def time_to_full_speed_ns(burst: Messages) -> int:
    """Until buffers of a burst arrive at nine tenths of the best rate that they ever arrive at."""
    arrivals = list(burst.instants(TracePoint.RECEIVED))
    spans = [b - a for a, b in zip(arrivals, arrivals[WINDOW_BUFFERS:], strict=False)]
    best = min(spans)
    at_ns = next(arrivals[i] for i, span in enumerate(spans) if span * 0.9 <= best)
    return at_ns - next(burst.instants(TracePoint.SENT))


def burst_bytes_per_s(burst: Messages) -> float:
    """Payload of a burst by the time from its first data buffer to arrive to its last."""
    arrivals = list(burst.instants(TracePoint.RECEIVED))
    return BURST_RECORDS * RECORD_BYTES / (arrivals[-1] - arrivals[0]) * 1e9


def round_trips(burst: Messages, latency_ns: int) -> list[int]:
    """Data buffers that arrive without a pause as long as the link: those of a round trip, where
    credit comes back once in each.
    """
    arrivals = list(burst.instants(TracePoint.RECEIVED))
    groups = [1]
    for before, after in pairwise(arrivals):
        if after - before > latency_ns:
            groups.append(0)
        groups[-1] += 1
    return groups


def time_until_the_writer_waits_ns(slowed: Messages) -> int:
    """Until the writer waits for a buffer for the first time since data has arrived: at the very
    start the channel waits for the word that its consumer is ready.
    """
    from_ns = next(slowed.instants(TracePoint.RECEIVED))
    at_ns = next(each for each in slowed.instants(TracePoint.WRITER_WAITS) if each > from_ns)
    return at_ns - next(slowed.instants(TracePoint.SENT))


def main() -> None:
    """Measure both modes and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", default="1ms", help="of the link, one way [default: 1ms]")
    parser.add_argument(
        "--floating",
        type=int,
        default=DEFAULTS.floating_buffers,
        help="floating buffers, and as many more a channel may have [default: 8]",
    )
    parser.add_argument(
        "--exclusive",
        type=int,
        default=DEFAULTS.exclusive_buffers,
        help="exclusive buffers of the channel [default: 2]",
    )
    parser.add_argument("--sockets", action="store_true", help="throughput over real sockets")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.sockets:
        compare_over_sockets(arguments.rounds, arguments.seconds, arguments.seed)
    else:
        latency_ns = parse_duration_ns(arguments.latency, "--latency", bare_unit=None)
        per_channel = max(DEFAULTS.max_buffers_per_channel, arguments.floating + 2)
        compare_in_virtual_time(
            latency_ns,
            replace(
                DEFAULTS,
                exclusive_buffers=arguments.exclusive,
                floating_buffers=arguments.floating,
                max_buffers_per_channel=per_channel,
            ),
        )


def compare_over_sockets(rounds: int, seconds: float, seed: int) -> None:
    """Print the throughput of both modes and its ratio, with default buffers."""
    sides = {mode: ("--flow-control", mode) for mode in (TCP, CREDIT)}
    rows = []
    for name, options in CASES.items():
        duration = ("--duration", f"{seconds:g}s")
        runs = run_in_turns(sides, *options, *duration, rounds=rounds, seed=seed)
        rates = {mode: [rate(run) for run in runs[mode]] for mode in runs}
        of_processor = {mode: [rate_per_processor(run) for run in runs[mode]] for mode in runs}
        rows.append(
            (
                name,
                *(f"{median(rates[mode]) / 1e6:.0f}" for mode in (CREDIT, TCP)),
                ratio(rates[TCP], rates[CREDIT]),
                ratio(of_processor[TCP], of_processor[CREDIT]),
            )
        )
    print_table(
        (
            f"{rounds} rounds of {seconds:g} s, seeds {seed} to {seed + rounds - 1}",
            "credit MB/s",
            "tcp MB/s",
            "credit / tcp [95%]",
            "per processor time [95%]",
        ),
        rows,
    )


def compare_in_virtual_time(latency_ns: int, network: NetworkConfig) -> None:
    """Print what credit costs over a link with this latency."""
    rows = []
    for flow_control in FLOW_CONTROLS:
        burst = run(flow_control, latency_ns, rate_per_s=0.0, slow=(), network=network)
        slow = SlowConsumer(0, round(1e9 / SLOW_RATE_PER_S))
        slowed = run(flow_control, latency_ns, rate_per_s=2.0 * SLOW_RATE_PER_S, slow=(slow,))
        trips = round_trips(burst, latency_ns)[:ROUND_TRIPS_SHOWN]
        rows.append(
            (
                flow_control,
                f"{add_credits_per_buffer(burst):.3f}",
                human_duration(time_to_full_speed_ns(burst)),
                human_duration(time_until_the_writer_waits_ns(slowed)),
                f"{burst_bytes_per_s(burst) / 1e6:.0f}",
                ", ".join(map(str, trips)) if len(trips) > 1 else "no pause",
            )
        )
    print_table(
        (
            "flow control",
            "AddCredits per buffer",
            "burst at full speed after",
            "writer first waits after",
            "burst MB/s",
            "buffers of the first round trips",
        ),
        rows,
    )


if __name__ == "__main__":
    main()
