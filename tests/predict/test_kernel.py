"""The kernel: its memory is the same in Python and in compiled functions, and its machine code is
kept by the content of its sources.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numba
import pytest

from flinknet.predict import kernel
from flinknet.predict.kernel.compiling import digest_of, kept_on_disk, pointer
from flinknet.predict.kernel.memory import (
    FIRST,
    NO_CHANNEL,
    Channel,
    Exchange,
    Histogram,
    Message,
    Sink,
    Source,
)
from flinknet.predict.kernel.run import run
from flinknet.predict.kernel.views import KernelMemory, float_bits

SOURCES = Path(kernel.__file__).parent


def _hand_over(words: Any, at: int) -> int:
    channel = Channel(words, at)
    channel.source.lent += 2
    channel.ring[1].kind = channel.sink.inputs_count
    channel.sink.inputs[1] = channel
    channel.sink.held = NO_CHANNEL
    channel.sink.wanted_bytes = channel.sink.wanted_bytes / 2
    Histogram(words, FIRST).counts[1] += 3
    behind = channel.ring[0].next
    return 1 if channel.sink and not channel.connection and behind == channel.ring[1] else 0


def test_a_record_is_the_same_in_python_and_compiled() -> None:
    inner: Any = numba.njit(_hand_over)
    compiled: Any = numba.njit(lambda memory, at: inner(pointer(memory), at))
    found = []
    for hand_over in (_hand_over, compiled):
        memory = KernelMemory()
        counts, first = memory.rows(Histogram, 1)[0], memory.take(2)
        memory.put(Histogram, counts, counts=first)
        source, sink, at = (memory.take(each.width()) for each in (Source, Sink, Channel))
        ring = memory.take(2 * Message.width())
        memory.put(Sink, sink, inputs=memory.take(2), inputs_count=7, held=at)
        memory.put(Sink, sink, wanted_bytes=float_bits(2.5))
        memory.put(Channel, at, source=source, sink=sink, ring=ring)
        words = memory.to_array()
        assert hand_over(words, at) == 1
        found.append(words.tolist())
        assert memory.at(Source, source).lent == 2
        assert memory.at(Sink, sink).inputs[1] == memory.at(Channel, at)
        assert memory.at(Sink, sink).wanted_bytes == 1.25
        assert memory.at(Histogram, counts).counts.array(2).tolist() == [0.0, 3.0]
    assert found[0] == found[1]


def test_a_record_shows_its_words_and_each_has_a_meaning() -> None:
    memory = KernelMemory()
    at = memory.take(Message.width())
    memory.put(Message, at, kind=3, size=100)
    assert repr(memory.at(Message, at)).startswith("Message@1(kind=3, records=0,")
    assert repr(NO_CHANNEL) == "no Channel"
    assert Message.fields["size"].meaning == "bytes"
    assert all(each.meaning for each in Exchange.fields.values())


def test_what_is_kept_on_disk_is_that_of_all_source_files() -> None:
    """Of numba's own choice it would be that of the file of `run`, never of its callees."""
    path = Path(run._cache.cache_path)  # type: ignore[attr-defined]
    assert path.name == f"flinknet-kernel-{digest_of(SOURCES)[:16]}"


def test_every_source_file_counts(tmp_path: Path) -> None:
    for file in SOURCES.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert digest_of(tmp_path) == digest_of(SOURCES)
    for file in tmp_path.iterdir():
        before = digest_of(tmp_path)
        file.write_text(file.read_text() + "\n")
        assert digest_of(tmp_path) != before


def test_another_clone_finds_the_same_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "kept"))
    found = []
    for name in ("one", "other"):
        folder = tmp_path / name / "kernel"
        folder.mkdir(parents=True)
        source = "def twice(number):\n    return 2 * number\n"
        (folder / "functions.py").write_text(source)
        known: dict[str, Any] = {}
        exec(compile(source, folder / "functions.py", "exec"), known)
        found.append(kept_on_disk(known["twice"]))
    first, second = found
    assert first._cache.cache_path == second._cache.cache_path
    assert [first(2), second(3)] == [4, 6]
    assert (sum(first.stats.cache_misses.values()), sum(second.stats.cache_hits.values())) == (1, 1)


def test_of_processes_that_need_the_same_machine_code_one_compiles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "kept"))
    file = tmp_path / "long.py"
    body = "    number += 1 / number\n" * 300
    file.write_text(f"def long(number):\n{body}    return number\n")
    known: dict[str, Any] = {"__name__": __name__}
    exec(compile(file.read_text(), str(file), "exec"), known)
    context = multiprocessing.get_context("fork")
    together, misses = context.Barrier(2), context.SimpleQueue()

    def call() -> None:
        function: Any = kept_on_disk(known["long"])
        together.wait()
        assert function(1.0) > 1
        misses.put(sum(function.stats.cache_misses.values()))

    processes = [context.Process(target=call) for _ in range(2)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert [each.exitcode for each in processes] == [0, 0]
    assert sorted(misses.get() for _ in processes) == [0, 1]
