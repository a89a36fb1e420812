"""Every format version that was ever released is still read, to the last number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinknet.trace.format import FORMAT_VERSION
from flinknet.trace.manifest import SCHEMA_VERSION
from tests.sample_traces import EXPECTED_NAME, summary

TRACES = Path(__file__).parents[2] / "traces"
SAMPLES = sorted(expected.parent for expected in TRACES.glob(f"v*/*/{EXPECTED_NAME}"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_committed_sample_still_says_what_it_said(sample: Path) -> None:
    assert summary(sample) == json.loads((sample / EXPECTED_NAME).read_text())


def test_every_format_version_has_a_sample() -> None:
    assert {sample.parent.name for sample in SAMPLES} >= {
        f"v{version}" for version in range(1, max(FORMAT_VERSION, SCHEMA_VERSION) + 1)
    }
