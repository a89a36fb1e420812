"""Why a run failed: how its TaskManagers ended, and the one error that explains it.

When a process dies, the others lose their connections to it and report that. The death is the
cause, their reports are its consequences; both belong in the one line that a user reads.
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

_SELF_EXPLANATORY = (
    errors.ConfigError,
    errors.LocalTransportError,
    errors.PartitionConnectionError,
    errors.TraceError,
)
"""Errors whose text says everything, whichever TaskManager raised them."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The premature end of a TaskManager.

    Attributes:
        exit_code: of a process that died without a message; None: `error` is why it ended, and
            `kind` the class name of that FlinknetError, empty for a bug.
    """

    index: int
    pid: int | None
    exit_code: int | None = None
    error: str = ""
    kind: str = ""

    @property
    def is_death(self) -> bool:
        """Whether it ended without a message."""
        return self.exit_code is not None

    @property
    def is_consequence(self) -> bool:
        """Whether it ended because it lost another TaskManager."""
        lost = (RemoteTransportError, ProducerFailedError, PartitionConnectionError)
        return not self.is_death and issubclass(_kind_of(self), lost)


def error_of(endings: Sequence[Ending], trace_dir: object | None) -> Exception:
    """Combine the endings into one error: deaths first, then own failures, then consequences.

    Args:
        trace_dir: directory of the trace; None: there is none.
    """
    first, *others = sorted(endings, key=lambda each: (not each.is_death, each.is_consequence))
    if not first.is_death:
        kind = _kind_of(first)
        if kind is FlinknetError:
            return RuntimeError(f"tm-{first.index} failed:\n{first.error}")
        if kind in _SELF_EXPLANATORY:
            return kind(first.error)
        if issubclass(kind, errors.BufferPoolError):
            return errors.ConfigError(first.error)
    sentences = [_sentence(first), *(_sentence(each) for each in others)]
    if trace_dir is not None:
        sentences.append(f"What was recorded is in {trace_dir}")
    return RunFailedError(". ".join(sentences))


def _sentence(ending: Ending) -> str:
    if not ending.is_death:
        return f"tm-{ending.index}: {ending.error}"
    code = ending.exit_code or 0
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"tm-{ending.index} (pid {ending.pid}) died in mid-run, {how}"


def _kind_of(ending: Ending) -> type[FlinknetError]:
    """The class of an error by its name; FlinknetError itself for any other (a bug)."""
    kind: type[FlinknetError] = getattr(errors, ending.kind or "-", FlinknetError)
    return kind
