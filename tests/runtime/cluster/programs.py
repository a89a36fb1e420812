"""Programs that tests run on real processes, as texts of files; and one as a graph."""

from __future__ import annotations

from collections.abc import Mapping

from flinknet.graph import StreamGraph
from tests.graph.programs import environment


def joined(parallelism: int, settings: Mapping[str, str] | None = None) -> StreamGraph:
    """Two vertices of which every task sends to every other."""
    env = environment(settings)
    env.set_parallelism(parallelism)
    env.from_sequence(1, 9).name("A").shuffle().print().name("B")
    return env.execute("Joined")


PIPELINE = """
def main(env, parallelism="2", rate="5k/s", records="0"):
    env.set_parallelism(int(parallelism))
    made = env.generate(rate=rate, records=int(records) or None).name("Made")
    made.rebalance().measure_latency().name("Read")
    env.execute("Pipeline")
"""
"""Everybody sends to everybody; without end, unless a number of records is given."""

ACROSS = """
def main(env, rate="5k/s", records="0"):
    made = env.generate(rate=rate, records=int(records) or None).name("Made")
    made.slot_sharing_group("upstream").rebalance().map(same).slot_sharing_group("downstream") \\
        .name("Read").measure_latency()
    env.execute("Across")


def same(record: tuple[int, bytes]) -> tuple[int, bytes]:
    return record
"""
"""One task of each of two vertices, in slots of their own."""

FAILS_ONCE = """
import os

def main(env, mark):
    env.set_parallelism(2)

    def fail_once(value: int) -> int:
        if value == 900:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
            raise ValueError("this once")
        return value

    env.from_sequence(1, 1000).rebalance().map(fail_once).name("Fails").print()
    env.execute("Fails once")
"""
"""The task that first sees the number 900 fails."""

HANGS = """
import threading
from pathlib import Path

def main(env, mark):

    def hang(value: int) -> int:
        Path(mark).touch()
        threading.Event().wait()
        return value

    env.from_sequence(1, 10).map(hang).print()
    env.execute("Hangs")
"""
"""A function that leaves a mark and does not return."""

BESIDE = """
import time

def main(env, mark, records):
    made = env.generate(rate="2k/s", records=int(records)).slot_sharing_group("up")
    other = env.from_sequence(1, 9).slot_sharing_group("up too")
    made.rebalance().map(same).slot_sharing_group("down").name("Quick").discard()

    def slow(value: int) -> int:
        time.sleep(1.8 if value == 1 else 0.3)
        with open(mark, "a") as file:
            print(value, file=file)
        return value

    other.rebalance().map(slow).slot_sharing_group("down too").name("Slow").discard()
    env.execute("Beside")


def same(record: tuple[int, bytes]) -> tuple[int, bytes]:
    return record
"""
"""A pipeline beside another one whose function sleeps longer than some heartbeats."""

TWO_REGIONS = """
import os

seen = 0

def main(env, mark):
    env.set_parallelism(2)

    def fail_once(record: tuple[int, bytes]) -> tuple[int, bytes]:
        global seen
        seen += 1
        if seen == 500:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return record
            raise ValueError("this once")
        return record

    made = env.generate(rate="1k/s", records=4000).slot_sharing_group("up").forward()
    made.map(fail_once).slot_sharing_group("down").discard()
    env.execute("Two regions")
"""
"""Two pipelines between two TaskManagers; one of them fails when both are in the middle."""

WORD_COUNT = """
def main(env, port):
    env.set_parallelism(2)
    lines = env.socket_text_stream("127.0.0.1", int(port))
    lines.flat_map(tokenize).key_by(word_of).sum(1).print()
    env.execute("Word Count")


def tokenize(line: str) -> list[tuple[str, int]]:
    return [(word, 1) for word in line.split()]


def word_of(pair: tuple[str, int]) -> str:
    return pair[0]
"""

STAGES = """
def main(env, records, out):
    env.set_parallelism(2)
    first = env.from_sequence(1, int(records)).name("First")
    second = first.rebalance().map(same).name("Second")
    second.rebalance().map(same).name("Third").delay("4ms").write_as_text(out)
    env.execute("Stages")


def same(value: int) -> int:
    return value
"""
"""In batch mode three stages, of which the last takes its time."""

TWO_INPUTS = """
def first(record: tuple[int, bytes]) -> int:
    return record[0]

def main(env):
    env.set_runtime_mode("BATCH")
    made = env.generate(rate="300/s", records=150).name("Slow").map(first).name("First")
    env.from_sequence(1, 10).name("Quick").rebalance().union(made.rebalance()).print()
    env.execute("Two inputs")
"""
"""A task that reads two blocking results, one complete half a second after the other."""

TIGHT = """
import os

def main(env, mark):
    env.set_parallelism(1)

    def fail_once(value: int) -> int:
        if value == 30_000:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
            raise ValueError("this once")
        return value

    made = env.generate(rate="5k/s", record_size="1kb").slot_sharing_group("one")
    counted = env.from_sequence(1, 60_000).slot_sharing_group("other")
    made.rebalance().filter(bool).name("Slow").delay("4ms").slot_sharing_group("slow").discard()
    counted.rebalance().map(fail_once).name("Fails").slot_sharing_group("fails").discard()
    env.execute("Tight")
"""
"""Two readers on the second TaskManager: one fails and begins again while the other, which is slow,
holds the buffers that were free meanwhile.
"""
