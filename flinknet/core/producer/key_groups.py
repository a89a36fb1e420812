"""Key groups: the unit of distribution of keyed records (Flink: KeyGroupRangeAssignment)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DEFAULT_MAX_PARALLELISM = 128
"""Key groups of a consumer with up to 85 subtasks, if no maximum parallelism is set."""


def java_string_hash(text: str) -> int:
    """Java's String.hashCode of a text: 31-polynomial over UTF-16 units, as a signed
    32-bit number.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def key_groups(key_hashes: NDArray[np.int64], max_parallelism: int) -> NDArray[np.int64]:
    """Key group of each 32-bit key hash (Flink: KeyGroupRangeAssignment)."""
    return murmur_hash(key_hashes) % max_parallelism


def murmur_hash(key_hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flink's murmur hash of 32-bit ints (MathUtils.murmurHash): never negative."""
    code = key_hashes.astype(np.uint32)
    code *= np.uint32(0xCC9E2D51)
    code = (code << np.uint32(15)) | (code >> np.uint32(17))
    code *= np.uint32(0x1B873593)
    code = (code << np.uint32(13)) | (code >> np.uint32(19))
    code = code * np.uint32(5) + np.uint32(0xE6546B64)
    code ^= np.uint32(4)
    code ^= code >> np.uint32(16)
    code *= np.uint32(0x85EBCA6B)
    code ^= code >> np.uint32(13)
    code *= np.uint32(0xC2B2AE35)
    code ^= code >> np.uint32(16)
    signed = code.view(np.int32).astype(np.int64)
    return np.where(signed == -(2**31), 0, np.abs(signed))


def default_max_parallelism(parallelism: int) -> int:
    """Default key groups of a consumer (Flink:
    KeyGroupRangeAssignment.computeDefaultMaxParallelism).
    """
    wished = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(wished, DEFAULT_MAX_PARALLELISM), 1 << 15)
