"""Settings of a cluster and its jobs that are not on the wire, each with its origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flinknet import options
from flinknet.errors import ConfigError
from flinknet.trace import RunManifest
from flinknet.trace.manifest import IS_ADAPTIVE, SETTINGS_FROM

JOB: Final = "job"
"""Origin of settings that a job itself reports."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one origin; a later layer overrides an earlier one.

    Attributes:
        keys: Flink's keys with their values.
    """

    origin: str
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stated:
    """Settings of a cluster and its jobs.

    Attributes:
        cluster: settings that the cluster reports.
        given: settings from the user, which override the cluster's.
        jobs: keys of each job, by its id, which override both.
    """

    cluster: tuple[Layer, ...] = ()
    given: tuple[Layer, ...] = ()
    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def put_into(self, manifest: RunManifest) -> RunManifest:
        """The manifest with these settings, and Flink's defaults for all others; unchanged if there
        are none. Of several jobs, only settings with equal values are used.

        Raises: ConfigError if Flink would reject the given settings.
        """
        ids = manifest.scenario.get("job", {}).get("ids", ())
        common = Layer(JOB, _in_common([self.jobs[each] for each in ids if each in self.jobs]))
        layers: Sequence[Layer] = [*self.cluster, *self.given, common]
        if not is_sound(layers):
            layers = self.given
        is_stated = self.cluster or self.given or common.keys
        return _with_layers(manifest, layers) if layers and is_stated else manifest


def is_sound(layers: Iterable[Layer]) -> bool:
    """Whether flinknet accepts all layers together; Flink itself may accept more."""
    try:
        options.network_config(options.merge(*(each.keys for each in layers)))
    except ConfigError:
        return False
    return True


def _in_common(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    if not settings:
        return {}
    first, *others = settings
    return {
        key: value for key, value in first.items() if all(each.get(key) == value for each in others)
    }


def _with_layers(manifest: RunManifest, layers: Sequence[Layer]) -> RunManifest:
    keys = options.merge(*(each.keys for each in layers))
    network, _ = options.network_config(keys)
    origins = options.origins_of((each.origin, each.keys) for each in layers)
    effective = dict(options.effective_flink_keys(network))
    known = {key: origins[key] for key in sorted(keys) if key in effective}
    scenario = {**manifest.scenario, SETTINGS_FROM: known}
    if keys.get(options.ADAPTIVE_PARTITIONER, "").lower() == "true":
        scenario[IS_ADAPTIVE] = True
    return replace(manifest, flink_keys=effective, scenario=scenario)
