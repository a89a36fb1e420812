"""Commands that are called in this process, in a Spark session that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest


@contextmanager
def commands_in(spark: Any) -> Iterator[None]:
    """Within the block no command starts a session of its own."""
    with pytest.MonkeyPatch.context() as patch:
        module = "flinknet.replay.spark.session"
        patch.setattr(f"{module}.spark_session", lambda _=None: nullcontext(spark))
        patch.setattr(f"{module}.loading_session", lambda _=None: nullcontext(lambda: spark))
        yield
