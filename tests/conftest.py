"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says nothing on a busy machine; the suite has its own timeout.
settings.register_profile("flinknet", deadline=None)
settings.load_profile("flinknet")
