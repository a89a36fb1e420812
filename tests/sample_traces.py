"""What is known of a committed sample trace: description, checks, and the sum of each column.

`python -m tests.sample_traces RUN` writes it to RUN/expected.json, once, when the sample is added.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from flinknet.trace import open_run
from flinknet.trace.blocks import ORDER
from flinknet.trace.describe import describe_run
from flinknet.trace.schema import COLUMN_NAMES
from flinknet.trace.verify import verify_run

EXPECTED_NAME = "expected.json"


def summary(path: Path) -> dict[str, Any]:
    """Everything a reader finds in a sample, as plain data that does not name its place."""
    run = open_run(path)
    sums = dict.fromkeys((*COLUMN_NAMES, ORDER), 0)
    for reader in run.readers():
        with reader:
            for block in reader.events((*COLUMN_NAMES, ORDER)):
                for name, values in block.items():
                    sums[name] += int(values.sum(dtype=np.int64))
    described = describe_run(run) | {"path": ""}
    found = {"info": described, "verify": dataclasses.asdict(verify_run(run)), "column_sums": sums}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        target = Path(argument) / EXPECTED_NAME
        target.write_text(json.dumps(summary(Path(argument)), indent=1) + "\n", encoding="utf-8")
