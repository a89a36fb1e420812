"""The checks of the machine tell what they found."""

from __future__ import annotations

from flinknet.runtime.host import MISSING, OK, check_machine


def test_this_machine_passes_every_check_that_a_run_needs() -> None:
    checks = check_machine()
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.status != MISSING for check in checks)
    assert all(check.advice for check in checks if check.status != OK)
