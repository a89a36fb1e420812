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
        exit_code: of a process that died without a word; None: `error` says why it ended, and
            `kind` is the name of that FlinknetError, empty for a bug.
    """

    index: int
    pid: int | None
    exit_code: int | None = None
    error: str = ""
    kind: str = ""

    @property
    def is_death(self) -> bool:
        """Whether it ended without a word."""
        return self.exit_code is not None

    @property
    def is_consequence(self) -> bool:
        """Whether it ended because another one was gone."""
        lost = (RemoteTransportError, ProducerFailedError, PartitionConnectionError)
        return not self.is_death and issubclass(_kind_of(self), lost)


def error_of(endings: Sequence[Ending], trace_dir: object | None) -> Exception:
    """The error of a run whose TaskManagers ended so: deaths first, then what failed by itself,
    then who lost a peer.

    Args:
        trace_dir: where what was recorded lies; None: nowhere.
    """
    first, *others = sorted(endings, key=lambda each: (not each.is_death, each.is_consequence))
    if not first.is_death:
        kind = _kind_of(first)
        if kind is FlinknetError:
            return RuntimeError(f"tm-{first.index} failed:\n{first.error}")
        if kind in _AS_IT_IS:
            return kind(first.error)
        if issubclass(kind, errors.BufferPoolError):
            return errors.ConfigError(first.error)
    sentences = [_told(first), *(_told(each) for each in others)]
    if trace_dir is not None:
        sentences.append(f"What was recorded is in {trace_dir}")
    return RunFailedError(". ".join(sentences))


def _told(ending: Ending) -> str:
    if not ending.is_death:
        return f"tm-{ending.index}: {ending.error}"
    code = ending.exit_code or 0
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"tm-{ending.index} (pid {ending.pid}) died in mid-run, {how}"


def _kind_of(ending: Ending) -> type[FlinknetError]:
    """The class of an error by its name; FlinknetError itself for what is none (a bug)."""
    kind: type[FlinknetError] = getattr(errors, ending.kind or "-", FlinknetError)
    return kind
