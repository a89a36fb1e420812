"""Flink's configuration keys: which exist, their meaning here, and from text to NetworkConfig.

Settings are `dict[str, str]`: current key -> text as the user wrote it. They come in layers (a
config.yaml, then `-D key=value`, then named options); `merge` puts a later layer over an earlier
one, `check_agreement` rejects contradictions within one command line, `expand` makes a setting for
each combination of the values in comma-separated lists, `network_config` interprets them.

A key that Flink has and flinknet ignores is accepted with a warning. A key that Flink does not have
is an error on the command line that names the nearest one, and a warning in a file or a running
cluster, where Flink ignores it. Keys that are fixed numbers in Flink 2.x work on the command line,
with a warning, and are ignored in a file of 2.x. Deprecated keys work, with a warning that names
their replacement.

    keys       the keys of Flink 1.20 and 2.3, and finding one by any of its spellings
    values     one value: parsed by type and limits, and formatted
    files      config.yaml and flink-conf.yaml
    resources  documents of Kubernetes with settings of Flink
    layers     settings from several places, sweeps
    memory     network memory from total sizes, as a TaskManager derives it
    network    from settings to NetworkConfig and back; effective values of keys, and their origins
    link       emulated links, and lists of them
    what_if    settings that a what-if can change, of which some are keys
"""

from .files import RefusedValuesError, check_total_of, flatten, read_flink_conf, release_of, text_of
from .keys import (
    ADAPTIVE_PARTITIONER,
    ADDRESSES,
    BIND_PORT,
    BUFFER_TIMEOUT,
    BUFFER_TIMEOUT_ENABLED,
    CHECKPOINT_INTERVAL,
    CREDIT_MODEL,
    EXCLUSIVE_BUFFERS,
    FLINK_1,
    FLINK_2,
    FLOATING_BUFFERS,
    MIN_SEGMENT_SIZE,
    NETWORK_MAX,
    NETWORK_MIN,
    SEGMENT_SIZE,
    STARTING_SEGMENT_SIZE,
    Option,
    find_option,
    options,
)
from .layers import (
    canonical,
    check_agreement,
    deprecated_keys,
    expand,
    merge,
    network_settings,
    origins_of,
    parse_assignment,
    swept_keys,
)
from .memory import check_total, is_total_given
from .network import (
    EffectiveKey,
    effective_flink_keys,
    effective_keys,
    flow_control_of,
    heartbeats_of,
    network_config,
)
