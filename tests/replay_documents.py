"""Answers of a replay as the documents that users get."""

from __future__ import annotations

from typing import Any

from flinknet.replay.pipeline import Replay
from flinknet.report.export import answer_document


def documents(replay: Replay) -> list[dict[str, Any]]:
    """The document about each run."""
    return [answer_document(each) for each in replay.answers]
