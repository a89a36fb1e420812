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
"""The origin of what a job itself is set to."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place states; of several layers a later one is over an earlier one.

    Attributes:
        keys: of Flink, with their values.
    """

    origin: str
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stated:
    """What is stated about a cluster.

    Attributes:
        cluster: of all of it.
        given: by the user, over that.
        jobs: keys of each job, by its id, over both.
    """

    cluster: tuple[Layer, ...] = ()
    given: tuple[Layer, ...] = ()
    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def put_into(self, manifest: RunManifest) -> RunManifest:
        """The manifest of a trace with these settings, and Flink's defaults of all others; as it is
        if nothing is stated. Of its jobs count the settings that they have in common.

        Raises: ConfigError if Flink would reject what was given.
        """
        ids = manifest.scenario.get("job", {}).get("ids", ())
        common = Layer(JOB, _in_common([self.jobs[each] for each in ids if each in self.jobs]))
        layers: Sequence[Layer] = [*self.cluster, *self.given, common]
        if not is_sound(layers):
            layers = self.given
        is_stated = self.cluster or self.given or common.keys
        return _with_layers(manifest, layers) if layers and is_stated else manifest


def is_sound(layers: Iterable[Layer]) -> bool:
    """Whether flinknet takes all of it together: Flink itself may run with more than that."""
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
