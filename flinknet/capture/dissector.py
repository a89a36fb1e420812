"""The Wireshark dissector: a Lua script that uses this package's names of messages and events."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from importlib.resources import files

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind
from flinknet.core.wire import checkpoint_barrier, events


def dissector_script() -> str:
    """The script, ready for Wireshark's plugin folder or `tshark -X lua_script:FILE`."""
    tables = {
        "MESSAGES": _rows(
            (each, "".join(map(str.capitalize, each.name.split("_")))) for each in MessageKind
        ),
        "DATA_TYPES": _names(DataType),
        "EVENTS": _rows((tag, each.__name__) for tag, each in events.EVENT_CLASSES.items()),
        "CHECKPOINT_KINDS": _names(checkpoint_barrier.SnapshotType),
        "ALIGNMENTS": _names(checkpoint_barrier.AlignmentType),
        "STOP_MODES": _names(events.StopMode),
    }
    script = files(__package__).joinpath("dissector.lua").read_text(encoding="utf-8")
    for name, rows in tables.items():
        script = script.replace(f"@{name}@", rows)
    return script


def _names(kinds: type[IntEnum]) -> str:
    return _rows((each, each.name) for each in kinds)


def _rows(names: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f'  [{int(number)}] = "{name}",' for number, name in sorted(names))
