"""Plans of jobs that run on a real cluster, as its JobManager describes them."""

from __future__ import annotations

import pytest

from flinknet.core.wire.ids import JobVertexID
from flinknet.errors import ConfigError
from flinknet.graph.job_config import job_config
from flinknet.graph.planning import job_graph_of_running
from flinknet.graph.running_job import RunningInput, RunningJob, RunningVertex

HERE, ELSEWHERE = JobVertexID(b"1" * 16), JobVertexID(b"2" * 16)


def test_an_input_from_a_vertex_that_the_job_does_not_have_is_refused() -> None:
    reads = RunningInput(ELSEWHERE, "REBALANCE", "pipelined_bounded")
    vertex = RunningVertex(HERE, "map", 1, 128, (reads,), ())
    job = RunningJob("00", "a job", "RUNNING", False, 0, (vertex,))
    with pytest.raises(ConfigError, match=f"map reads {ELSEWHERE}, which is not in the job"):
        job_graph_of_running(job, job_config({})[0])
