"""A step that takes long says how far it has come, at each tenth of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 1.0

QUIET_LOOKS = 10
"""A step that is done before says nothing."""


class Tenths:
    """What Spark does now, as a line whenever another tenth of its tasks is done."""

    def __init__(self) -> None:
        self.step = ""
        self._looks = 0
        self._said: dict[int, int] = {}

    def begin(self, step: str) -> None:
        """From now on the tasks are of this step."""
        self.step = step
        self._looks = 0

    def look(self, stages: Mapping[int, tuple[int, int]]) -> list[str]:
        """The lines that are due.

        Args:
            stages: those that run, by their id: the tasks that are done, and all of them.
        """
        self._looks += 1
        lines = []
        for stage, (done, total) in stages.items():
            tenth = 10 * done // total if total else 0
            if tenth > self._said.get(stage, 0) and self._looks > QUIET_LOOKS:
                self._said[stage] = tenth
                lines.append(f"{self.step}: {done:,} of {total:,} tasks")
        return lines


@contextmanager
def saying_tenths(
    spark: SparkSession, say: Callable[[str], None]
) -> Iterator[Callable[[str], None]]:
    """Look once a second while the block goes on; not through Spark Connect, which does not say.

    Yields: what takes the name of the step that begins.
    """
    tenths, is_over = Tenths(), Event()

    def watch() -> None:
        with suppress(Exception):  # the JVM is gone: whoever calls it next says so
            tracker = spark.sparkContext.statusTracker()
            while not is_over.wait(LOOK_S):
                infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
                stages = {
                    each.stageId: (each.numCompletedTasks, each.numTasks) for each in infos if each
                }
                for line in tenths.look(stages):
                    say(line)

    thread = Thread(target=watch, name="flinknet-progress", daemon=True)
    thread.start()
    try:
        yield tenths.begin
    finally:
        is_over.set()
        thread.join(LOOK_S)  # not longer: a JVM that hangs does not answer
