"""Consumers of tapped channels: Flink's ways of joining two vertices, from subpartitions alone."""

from __future__ import annotations

import pytest

from flinknet.predict.loading import consumer_of


@pytest.mark.parametrize(
    ("producers", "consumers", "subpartitions", "expected"),
    [
        pytest.param(2, 3, 3, [[0, 1, 2], [0, 1, 2]], id="all to all"),
        pytest.param(3, 3, 1, [[0], [1], [2]], id="forward"),
        pytest.param(2, 4, 2, [[0, 1], [2, 3]], id="each feeds two"),
        pytest.param(2, 3, 2, [[0, 1], [2]], id="one feeds two, one feeds one"),
        pytest.param(4, 2, 1, [[0], [0], [1], [1]], id="two feed each"),
    ],
)
def test_subpartitions_lead_to_subtasks(
    producers: int, consumers: int, subpartitions: int, expected: list[list[int]]
) -> None:
    found = [
        [
            consumer_of(producer, each, subpartitions, (producers, consumers))
            for each in range(len(expected[producer]))
        ]
        for producer in range(producers)
    ]
    assert found == expected
