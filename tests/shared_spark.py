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
        session = "flinknet.replay.spark.session.spark_session"
        patch.setattr(session, lambda _=None: nullcontext(spark))
        yield
