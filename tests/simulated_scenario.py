"""Clusters in virtual time of whole scenarios, whose records are planned here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flinknet.config import Scenario
from flinknet.core.probe import Probe
from flinknet.core.producer.channel_selector import murmur_hash
from flinknet.errors import ConfigError
from flinknet.job.load.arrivals import ScheduledArrivals
from flinknet.job.load.load_tasks import key_draws
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.job.selectors import create_selector
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from flinknet.simulator.faults import NO_FAULTS, Faults
from flinknet.simulator.link import LinkSettings
from flinknet.simulator.source_plan import SourcePlan
from tests.load_cluster import load_cluster


def cluster_of(
    scenario: Scenario,
    costs: CostModel = TYPICAL_COSTS,
    *,
    probes: Sequence[Probe] = (),
    link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
    faults: Faults = NO_FAULTS,
    flush_overhead_ns: int = 0,
) -> Cluster:
    """The cluster of a scenario, with the round trip and bandwidth of its emulated link.
    Raises: ConfigError if its number of records is unknown.
    """
    load, emulated = load_plan_of(scenario), scenario.link
    if emulated is not None:
        link = replace(link, bandwidth_bytes_per_s=emulated.bandwidth_bytes_per_s)
        if costs.back_ns is None:
            costs = replace(costs, back_ns=costs.transit_ns)
        costs = costs.farther(emulated.rtt_ns / 2, is_awake=True)
    return load_cluster(
        load,
        plan_sources(load, start_ns=START_NS),
        costs,
        probes=probes,
        link=link,
        faults=faults,
        flush_overhead_ns=flush_overhead_ns,
    )


def plan_sources(load: LoadPlan, *, start_ns: int) -> list[SourcePlan]:
    """Plans of the sources of a scenario, by producer, without warm-up.

    The keys of hash partitioning differ from the runtime's: unless they are skewed, they are
    successive hashed numbers here, not drawn.

    Raises: ConfigError for a scenario without a number of records.
    """
    scenario = load.scenario
    workload, seed = scenario.workload, scenario.seed
    plans = []
    for source in load.sources:
        producer, output = source.subtask, source.outputs[0]
        instants_ns = None
        records = workload.records
        if records is None and workload.duration_ns is not None and not workload.is_max_rate:
            records = round(workload.duration_ns / 1e9 * workload.rate_per_s)
        if records is None:
            raise ConfigError("a simulated run needs a number of records, or a rate and a duration")
        if not workload.is_max_rate:
            arrivals = ScheduledArrivals(
                workload.arrivals,
                workload.rate_per_s,
                start_ns=start_ns,
                records=records,
                seed=seed * 1_000_003 + producer,
            )
            chunks = [np.empty(0, np.int64)]
            while arrivals.next_ns() is not None:
                chunks.append(arrivals.take(2**63 - 1, 1 << 20))
            instants_ns = np.concatenate(chunks)
        selector = create_selector(output.partitioner, output.subpartitions, seed + producer)
        keys = None
        if selector.needs_keys and workload.key_skew:
            keys = key_draws(scenario, producer).take(records)
        elif selector.needs_keys:
            keys = murmur_hash(np.arange(records) + (seed * 7919 + producer) * records)
        routes = selector.split(records, keys)
        subpartitions = np.empty(records, np.int32)
        for subpartition, indices in routes:
            subpartitions[indices] = subpartition
        end_ns = start_ns if instants_ns is None or not records else int(instants_ns[-1])
        routed, only = (None, routes[0][0]) if len(routes) == 1 else (subpartitions, 0)
        plans.append(SourcePlan(routed, instants_ns, records, end_ns, only))
    return plans
