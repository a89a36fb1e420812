"""Records of the kernel's memory are the same in Python and in compiled functions."""

from __future__ import annotations

from typing import Any

import numba

from flinknet.predict.kernel.compiling import pointer
from flinknet.predict.kernel.memory import NO_CHANNEL, Channel, Exchange, Message, Sink, Source
from flinknet.predict.kernel.views import KernelMemory


def _hand_over(words: Any, at: int) -> int:
    channel = Channel(words, at)
    channel.source.lent += 2
    channel.ring[1].kind = channel.sink.inputs_count
    channel.sink.inputs[1] = channel
    channel.sink.held = NO_CHANNEL
    behind = channel.ring[0].next
    return 1 if channel.sink and not channel.connection and behind == channel.ring[1] else 0


def test_a_record_is_the_same_in_python_and_compiled() -> None:
    inner: Any = numba.njit(_hand_over)
    compiled: Any = numba.njit(lambda memory, at: inner(pointer(memory), at))
    found = []
    for run in (_hand_over, compiled):
        memory = KernelMemory()
        source, sink, at = (memory.take(each.width()) for each in (Source, Sink, Channel))
        ring = memory.take(2 * Message.width())
        memory.put(Sink, sink, inputs=memory.take(2), inputs_count=7, held=at)
        memory.put(Channel, at, source=source, sink=sink, ring=ring)
        words = memory.to_array()
        assert run(words, at) == 1
        found.append(words.tolist())
        assert memory.at(Source, source).lent == 2
        assert memory.at(Sink, sink).inputs[1] == memory.at(Channel, at)
    assert found[0] == found[1]


def test_a_record_shows_its_words_and_their_meanings() -> None:
    memory = KernelMemory()
    at = memory.take(Message.width())
    memory.put(Message, at, kind=3, size=100)
    assert repr(memory.at(Message, at)).startswith("Message@1(kind=3, records=0,")
    assert repr(NO_CHANNEL) == "no Channel"
    assert Message.described().splitlines()[5] == "  5 size: bytes"
    assert all(each.meaning for each in Exchange.fields.values())
