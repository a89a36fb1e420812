"""Flink's keys of a job that joins a cluster: its own on top of the cluster's."""

from __future__ import annotations

from collections.abc import Mapping

from flinknet.errors import ConfigError

CLUSTER_KEY_PREFIXES = ("taskmanager.", "jobmanager.", "security.", "heartbeat.", "slot.")
"""Prefixes of the keys that processes are started with; a job cannot change them (in Flink they
have no effect in the configuration of a job).
"""


def joined_settings(cluster: Mapping[str, str], job: Mapping[str, str]) -> dict[str, str]:
    """Merge the settings of a job into those of its running cluster.

    Raises: ConfigError if the job sets a key of the cluster to another value.
    """
    for key, text in job.items():
        if key.startswith(CLUSTER_KEY_PREFIXES) and cluster.get(key) != text:
            known = cluster.get(key)
            there = "has its default" if known is None else f"has {known}"
            raise ConfigError(
                f"{key}: the cluster {there}, and a job that joins it cannot change that; leave it"
                " out, or start a cluster with it"
            )
    return {**cluster, **job}
