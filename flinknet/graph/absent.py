"""Calls of Flink's DataStream API that flinknet does not have, named when a program makes them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError

_ABSENT = re.compile("window|timer|state|join|co_?group|watermark|runtime_context")

_ITERATION = re.compile("iterat|close_with|feedback")


class NoSuchCallError(ConfigError, AttributeError):
    """A program calls something that is not part of flinknet's API."""


class FlinkApi:
    """A class that programs call. Raises: NoSuchCallError for calls that it does not have."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(name)
            text = f"{type(self).__name__} has no {name}"
            plain = re.sub("(?<=[a-z])([A-Z])", r"_\1", name).lower()
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            if _ITERATION.match(plain):
                text += ": iterations (Flink's FeedbackTransformation, with head and tail in one"
                text += " co-location group) were removed in Flink 2.0, and flinknet has none"
            elif _ABSENT.search(plain):
                text += ": flinknet has no windows, timers, joins or keyed state (docs/jobs.md); a"
                text += " function can keep what it needs in attributes of an object"
            elif found := get_close_matches(plain, known, n=1, cutoff=0.7):
                text += f"; did you mean {found[0]}?"
            else:
                text += f"; it has {', '.join(known)}"
            raise NoSuchCallError(text)
