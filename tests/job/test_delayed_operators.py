"""Delays of operators: a program's `.delay()`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flinknet.graph.operators import StreamMap
from flinknet.job.context import ProcessingContext
from flinknet.job.task_operators import delay


class Taken:
    """An output that adds up what it gets."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def collect(self, value: int) -> None:
        self.values.append(value)

    def collect_batch(self, values: Any) -> None:
        self.values += values.tolist()


@pytest.mark.parametrize("batched", [False, True])
def test_a_delayed_operator_takes_its_time_for_each_record_of_a_batch(batched: bool) -> None:
    operator, context, taken = (
        StreamMap(lambda x: x + 1, batched=batched),
        ProcessingContext(),
        Taken(),
    )
    delay(operator, 500, context)
    operator.process(1, taken)  # type: ignore[arg-type]
    assert context.work_ns == 500
    operator.process_batch(np.array([2, 3, 4]), taken)  # type: ignore[arg-type]
    assert context.work_ns == 4 * 500
    assert taken.values == [2, 3, 4, 5]
