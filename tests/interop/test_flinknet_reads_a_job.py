"""flinknet as consumer of a TaskManager that runs a job: what its log tells is all it needs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from bench.flink import cluster, distribution
from tests.interop.exchange import JAVA_OPTIONS, Flinknet, Release, assert_sound, follow

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]

RECORDS = 100_000
JOB = Path(__file__).parent / "java" / "BatchJob.java"


def write_log4j(folder: Path) -> Path:
    """As the cluster's, and it tells which partitions there are."""
    file = distribution.write_log4j(folder)
    manager = "org.apache.flink.runtime.io.network.partition.ResultPartitionManager"
    lines = f"logger.partitions.name = {manager}\nlogger.partitions.level = DEBUG\n"
    file.write_text(file.read_text() + lines)
    return file


def submit(release: Release, rest_port: int, directory: Path) -> None:
    """Compile the job, and hand it to a cluster."""
    compiler = distribution.java("javac")
    assert compiler is not None
    classes, jar = directory / "classes", directory / "job.jar"
    libraries = distribution.class_path(release.home)
    subprocess.run([compiler, "-nowarn", "-d", classes, "-cp", libraries, JOB], check=True)
    with ZipFile(jar, "w") as archive:
        for file in classes.iterdir():
            archive.write(file, file.name)
    paths = distribution.class_path(release.home, classes)
    arguments = ["-cp", paths, "BatchJob", str(rest_port), str(jar), str(RECORDS)]
    done = subprocess.run(
        [release.java, *JAVA_OPTIONS, *arguments], capture_output=True, text=True, check=False
    )
    assert "submitted" in done.stdout, done.stderr


@pytest.mark.usefixtures("quick_flink")
def test_the_partition_of_a_batch_job_is_read(
    producing: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "write_log4j", write_log4j)
    (port,) = cluster.free_ports(1)
    (work := tmp_path / "work").mkdir()
    task_manager = cluster.TaskManager(data_port=port)
    with cluster.Cluster(producing.home, work, [task_manager]) as running:
        submit(producing, running.rest_port, tmp_path)
        with follow(work / "tm-0.log") as log:
            registered = log.wait_for_text("Registered ResultPartition")
            log.wait_for_text("switched from RUNNING to FINISHED")
        found = re.search(r"ResultPartition (\S+) \[BLOCKING", registered)
        assert found is not None, registered
        address = ["consume", f"127.0.0.1:{port}", "--partition", found[1]]
        with Flinknet(tmp_path, *address, "--partition-type", "blocking") as flinknet:
            ending = flinknet.end()
    assert ending.code == 0, ending.lines
    (channel,) = ending.channels
    assert channel["records"] == RECORDS
    assert channel["value_bytes"] == 8 * RECORDS  # longs
    assert channel["other_elements"] == 1  # the watermark at the end of a bounded source
    assert ending.result["end"] == "end of partition"
    assert_sound(flinknet.run)
