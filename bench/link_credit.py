"""Throughput over emulated links by round trip and credit: measured, as the law allows, and in the
simulator.

    python bench/link_credit.py [--runs N] [BUFFERS ...]

BUFFERS is EXCLUSIVE+FLOATING, such as 2+8. The law: a round trip carries as many buffers as there
are credits. The simulator takes typical costs of the tasks, so it is compared where the link is the
limit.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, Link, NetworkConfig, Scenario, WorkloadConfig
from flinknet.options.link import parse_links, show_link
from flinknet.runtime.cluster.launcher import run_scenario
from tests.simulated_scenario import cluster_of

LINKS = "rtt=10ms,50ms"
MEASURED_NS = 2_000_000_000
ROUND_TRIPS = 40  # simulated ones: a round trip more or less changes the rate by 2.5%


def simulated_per_s(scenario: Scenario, records: int) -> float:
    """Records per second of the second half of a simulated run, so that its start does not count.
    Its last buffer does not wait for a timeout, which would be longer than the difference."""
    network = replace(scenario.network, buffer_timeout_ns=BUFFER_TIMEOUT_NEVER_NS)
    times_ns = []
    for count in (records, 2 * records):
        workload = WorkloadConfig(records=count, warmup_ns=0)
        cluster = cluster_of(replace(scenario, workload=workload, network=network))
        begun_ns = cluster.now_ns
        cluster.run_until_idle()
        times_ns.append(cluster.now_ns - begun_ns)
    return records / (times_ns[1] - times_ns[0]) * 1e9


def main() -> None:
    """Measure and simulate each link with each number of buffers, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--link", default=LINKS)
    parser.add_argument("buffers", nargs="*", default=["10+1", "64+1", "2+8", "2+64"])
    options = parser.parse_args()
    print(
        f"{'link':<28}{'buffers':>8}{'measured':>10}{'lowest … highest':>18}"
        f"{'law':>10}{'simulated':>18}"
    )
    for link in parse_links(options.link):
        for text in options.buffers:
            exclusive, floating = map(int, text.split("+"))
            scenario = Scenario(
                network=NetworkConfig(exclusive_buffers=exclusive, floating_buffers=floating),
                workload=WorkloadConfig(duration_ns=MEASURED_NS),
                link=link or Link(),
            )
            results = [
                run_scenario(scenario, out_dir=None, trace=False) for _ in range(options.runs)
            ]
            rates = sorted(each.measured.throughput_records_per_s or 0.0 for each in results)
            found = median(rates)
            law = results[0].link_records_per_s or 0.0
            records = int(found * ROUND_TRIPS * (link or Link()).rtt_ns / 1e9)
            simulated = simulated_per_s(scenario, max(20_000, records))
            print(
                f"{show_link(link):<28}{text:>8}{found / 1e3:>8.0f} k"
                f"{f'{rates[0] / 1e3:.0f} … {rates[-1] / 1e3:.0f} k':>18}{law / 1e3:>8.0f} k"
                f"{simulated / 1e3:>8.0f} k ({simulated / found - 1:+.1%})",
                flush=True,
            )


if __name__ == "__main__":
    main()
