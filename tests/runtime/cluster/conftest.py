"""Jobs of a test end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.runtime.cluster.live_job import LiveJob, join_job, start_job


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LiveJob]]:
    """Submits a program; see `start_job`."""
    jobs: list[LiveJob] = []

    def submit(*arguments: object, **options: object) -> LiveJob:
        jobs.append(partial(start_job, tmp_path)(*arguments, **options))  # type: ignore[arg-type]
        return jobs[-1]

    yield submit
    for job in jobs:
        job.kill()


@pytest.fixture
def join() -> Iterator[Callable[..., LiveJob]]:
    """Submits a program to the cluster of a job; see `join_job`."""
    jobs: list[LiveJob] = []

    def submit(job: LiveJob, program: str, *arguments: object) -> LiveJob:
        jobs.append(join_job(job, program, *arguments))
        return jobs[-1]

    yield submit
    for job in jobs:
        job.client.__exit__()
