"""Why a run failed: how its TaskManagers ended, and the one error that tells it.

When a process dies the others lose their connections to it and say so. The death is the cause, what
they report are its consequences; both belong in the one line a user sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinknet import errors
from flinknet.errors import (
    FlinknetError,
    PartitionConnectionError,
    ProducerFailedError,
    RemoteTransportError,
    RunFailedError,
)

from .messages import Failed

_AS_IT_IS = (
    errors.ConfigError,
    errors.LocalTransportError,
    errors.PartitionConnectionError,
    errors.TraceError,
)
"""Errors that tell all there is to tell, whichever TaskManager met them."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one TaskManager ended before its time.

    Attributes:
        exit_code: of a process that died without a word; None: `failed` says why it ended.
    """

    index: int
    pid: int | None
    exit_code: int | None = None
    failed: Failed | None = None

    @property
    def is_death(self) -> bool:
        """Whether it ended without a word."""
        return self.failed is None

    @property
    def is_consequence(self) -> bool:
        """Whether it ended because another one was gone."""
        return self.failed is not None and issubclass(
            _kind_of(self.failed),
            (RemoteTransportError, ProducerFailedError, PartitionConnectionError),
        )


def error_of(endings: Sequence[Ending], trace_dir: object | None) -> Exception:
    """The error of a run whose TaskManagers ended so: deaths first, then what failed by itself,
    then who lost a peer.

    Args:
        trace_dir: where what was recorded lies; None: nowhere.
    """
    first, *others = sorted(endings, key=lambda each: (not each.is_death, each.is_consequence))
    if first.failed is not None:
        kind = _kind_of(first.failed)
        if kind is FlinknetError:
            return RuntimeError(f"tm-{first.index} failed:\n{first.failed.error}")
        if kind in _AS_IT_IS:
            return kind(first.failed.error)
        if issubclass(kind, errors.BufferPoolError):
            return errors.ConfigError(first.failed.error)
    sentences = [_told(first), *(_told(each) for each in others)]
    if trace_dir is not None:
        sentences.append(f"What was recorded is in {trace_dir}")
    return RunFailedError(". ".join(sentences))


def _told(ending: Ending) -> str:
    if ending.failed is not None:
        return f"tm-{ending.index}: {ending.failed.error}"
    return f"tm-{ending.index} (pid {ending.pid}) died in mid-run, {how(ending.exit_code)}"


def how(exit_code: int | None) -> str:
    """An exit code in words."""
    if exit_code is not None and exit_code < 0:
        return f"killed by signal {-exit_code}"
    return f"exit code {exit_code}"


def _kind_of(failed: Failed) -> type[FlinknetError]:
    """The class of an error by its name; FlinknetError itself for what is none (a bug)."""
    kind: type[FlinknetError] = getattr(errors, failed.kind, FlinknetError)
    return kind if failed.kind else FlinknetError
