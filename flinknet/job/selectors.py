"""Partitioners: channel selectors by name, and Java's hashes of keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flinknet.core.producer import ChannelSelector, channel_selector
from flinknet.core.producer.channel_selector import default_max_parallelism, java_string_hash
from flinknet.errors import ConfigError

from .serializers import VALUE


def create_selector(partitioner: str, channels: int, seed: int) -> ChannelSelector:
    """Create the selector of a partitioner over a producer's channels.

    The seed determines where rebalance begins and what shuffle draws. Raises: ConfigError.
    """
    match partitioner:
        case "forward":
            return channel_selector.ForwardSelector()
        case "global":
            return channel_selector.GlobalSelector()
        case "broadcast":
            return channel_selector.BroadcastSelector()
        case "hash":
            return channel_selector.KeyGroupSelector(channels, default_max_parallelism(channels))
        case "rebalance":
            return channel_selector.RebalanceSelector(channels, seed % channels)
        case "rescale":
            return channel_selector.RescaleSelector(channels)
        case "shuffle":
            random = np.random.default_rng(seed)
            return channel_selector.ShuffleSelector(
                channels, lambda records: random.integers(0, channels, records)
            )
    raise ConfigError(f"partitioner {partitioner!r} is not known")


_MASK = 0xFFFFFFFF

_string_hash = lru_cache(maxsize=1 << 16)(java_string_hash)


def java_hash(key: Any) -> int:
    """The signed 32-bit hash of a key. Raises: TypeError if it cannot be serialised."""
    if isinstance(key, np.generic):
        key = key.item()
    if type(key) is str:
        return _string_hash(key)
    if key is None:
        return 0
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        if -(2**31) <= key < 2**31:
            return key
        return _signed((key ^ (key >> 32)) & _MASK)
    if isinstance(key, float):
        bits = int(np.float64(key).view(np.uint64))
        return _signed((bits ^ (bits >> 32)) & _MASK)
    if isinstance(key, bytes):
        return _polynomial((byte - ((byte & 0x80) << 1) for byte in key), 1)
    if isinstance(key, tuple):
        return _polynomial(map(java_hash, key), 0)
    if isinstance(key, list):
        return _polynomial(map(java_hash, key), 1)
    written = bytearray()
    VALUE.write(key, written)
    return java_hash(bytes(written))


def java_hashes(keys: Sequence[Any]) -> NDArray[np.int64]:
    return np.fromiter(map(java_hash, keys), np.int64, len(keys))


def _polynomial(numbers: Iterable[int], code: int) -> int:
    for number in numbers:
        code = (31 * code + number) & _MASK
    return _signed(code)


def _signed(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code
