"""Hashes of keys, equal to Java's hashCode of Flink's corresponding values: key groups follow
from them, and so the subtask that a key belongs to.

| key | hash |
|---|---|
| None | 0 |
| bool | 1231, 1237 |
| int of 32 bits | its value (Integer) |
| other int | high half xor low half (Long) |
| float | the same for its bits (Double) |
| str | polynomial over UTF-16 units (String) |
| bytes | polynomial over signed bytes (Arrays) |
| tuple | polynomial over the fields, starting at 0 (TupleN) |
| list | polynomial over the elements, starting at 1 (List) |
| anything else | hash of its bytes as a Value (see `serializers`) |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flinknet.core.producer.key_groups import java_string_hash

from .serializers import VALUE

_MASK = 0xFFFFFFFF

_string_hash = lru_cache(maxsize=1 << 16)(java_string_hash)


def java_hash(key: Any) -> int:
    """The hash of a key, as a signed 32-bit number.

    Raises: TypeError for a key that cannot be serialised (see ValueSerializer).
    """
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
    """The hashes of a sequence of keys."""
    return np.fromiter(map(java_hash, keys), np.int64, len(keys))


def _polynomial(numbers: Iterable[int], code: int) -> int:
    for number in numbers:
        code = (31 * code + number) & _MASK
    return _signed(code)


def _signed(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code
