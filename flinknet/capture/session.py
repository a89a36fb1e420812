"""Session: a recording in progress with the jobs, settings and metrics of its cluster, its trigger,
and the figures that are shown meanwhile and at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flinknet.graph.running_job import RunningJob
from flinknet.runtime.clock import wall_clock_iso
from flinknet.trace.job_names import channel_names, named_edges

from .channels import ChannelTable, Ends
from .meter import Meter, Trigger, channel_rows
from .observer import ConnectionObserver
from .recording import About, CaptureRecording
from .rest.http_client import RestPlace
from .rest.names import channels_of, named
from .rest.places import Places
from .rest.settings import Layer, Stated

if TYPE_CHECKING:
    from .rest.process import RestWatch

TICK_NS: Final = 250_000_000
LOOK_NS: Final = 1_000_000_000
CONNECTIONS_LISTED_MAX: Final = 200

TOTALS: Final = (
    *("skipped_bytes", "undecodable", "losses", "sequence_gaps", "unpaid_buffers"),
    *("missed_buffers", "credit_unknown_channels"),
)

_SUMMED: Final = ("data_bytes", "records", "other_elements", "uncounted_buffers", "events")
"""Attributes of channels that the result has the sums of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    out: Path
    counts_records: bool = True
    has_times: bool = True  # whether the times that records carry are recorded
    ring_ns: int | None = None  # time that is kept; None: everything
    trigger: Trigger | None = None
    duration_ns: int | None = None  # None: run until stopped
    stated: tuple[Layer, ...] = ()  # settings of the cluster that are not on the wire
    rest: RestPlace | None = None  # None: no queries


class Session:
    """A recording in progress. All instants are those of the trace.

    Args:
        begun_ns: the instant now.
        epoch_ns: instant of CLOCK_MONOTONIC that is 0 in the trace.
        may_be_full: on a full disk, keep the error in `recording.files.lacking`.

    Raises: ConfigError or TraceError if the directory cannot be used.
    """

    def __init__(
        self,
        config: SessionConfig,
        about: About,
        table: ChannelTable,
        *,
        begun_ns: int,
        epoch_ns: int = 0,
        may_be_full: bool = False,
    ) -> None:
        self.config = config
        self.table = table
        self.begun_ns = begun_ns
        self._about = about
        self._jobs: tuple[RunningJob, ...] = ()
        self._stated = Stated(given=config.stated)
        self._places = Places()
        self._names: dict[int, str] = {}
        self._named_channels = 0
        self._connections: list[dict[str, Any]] = []
        self._totals: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._layouts: set[str] = set()
        self._meter = Meter(begun_ns)
        self.recording = CaptureRecording(
            config.out,
            about,
            table,
            config.ring_ns,
            lambda manifest: self._stated.put_into(named(manifest, self._jobs)),
            may_be_full=may_be_full,
        )
        self._watch: RestWatch | None = None
        if config.rest is not None:
            from .rest.process import RestWatch

            self._watch = RestWatch(config.rest, config.out, config.ring_ns, epoch_ns)

    def observer(self, ends: Ends, *, is_from_start: bool = True) -> ConnectionObserver:
        return ConnectionObserver(
            self.recording.recorder,
            self.table,
            ends=ends,
            is_from_start=is_from_start,
            counts_records=self.config.counts_records,
            note_times=self.recording.recorder.note_times if self.config.has_times else None,
        )

    def end_connection(self, observer: ConnectionObserver, **more: Any) -> None:
        """Add a connection to the totals, and keep its summary with `more` if there is room."""
        summary = observer.summary()
        for name in TOTALS:
            self._totals[name] += summary[name]
        self._messages.update(summary["messages"])
        if summary["layout"] is not None:
            self._layouts.add(summary["layout"])
        if len(self._connections) < CONNECTIONS_LISTED_MAX:
            self._connections.append(summary | more)

    def take_names(self) -> None:
        """Take changed jobs and settings from the JobManager into the manifest."""
        if self._watch is not None:
            self._places.look(self.table.channels)
            if self._watch.tick():
                self._name_channels(self._watch)

    def look(
        self, now_ns: int, figures: dict[str, Any], metrics: dict[str, float]
    ) -> dict[str, Any]:
        """The current figures, with those of the connections (`figures`); fires the trigger, which
        may use `metrics` besides those of the channels."""
        watch, recording = self._watch, self.recording
        look = self._meter.look(self.table, now_ns) | figures
        look["metrics"] = look["metrics"] | metrics
        if self.config.trigger is not None and recording.keep_until_ns is None:
            why = self.config.trigger.reason(look["metrics"])
            if why is not None:
                recording.trigger(why, now_ns)
                if watch is not None:
                    watch.keep()
        if watch is not None and len(self.table) > self._named_channels:
            self._name_channels(watch)
        for row in look["channels"]:
            row["name"] = self._names.get(row["channel"])
        return look | {
            "rest_error": None if watch is None else watch.error,
            "elapsed_ns": now_ns - self.begun_ns,
            "trace_bytes": recording.files.size_bytes,
            "triggers": len(recording.triggers),
        }

    def end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._name_channels(self._watch)

    def result(self, ended_ns: int) -> dict[str, Any]:
        """The result without what `written` knows only after the end."""
        channels = self.table.channels
        largest = max((each.largest_buffer_bytes for each in channels), default=0)
        return {
            "schema_version": 2,  # 1: layout; in_flight_buffers, last_checkpoints of channels
            "origin": self._about.origin,
            "started_at": self._about.started_at,
            "ended_at": wall_clock_iso(),
            "duration_ns": ended_ns - self.begun_ns,
            "layouts": sorted(self._layouts),
            "messages": {name: self._messages[name] for name in sorted(self._messages)},
            "buffers": sum(each.data_buffers for each in channels),
            **{name: sum(getattr(each, name) for each in channels) for name in _SUMMED},
            "largest_buffer_bytes": largest,
            "fan_out": self.table.fan_out(),
            **{name: self._totals[name] for name in TOTALS},
            "channels_refused": self.table.refused_channels,
            "placed_channels": len(self._places.placed),
            "uncertain_channels": len(self._places.uncertain),
            "triggers": [{"at_ns": at_ns, "why": why} for at_ns, why in self.recording.triggers],
            "rest": self._rest_document(),
            "channels": [
                {**row, "name": self._names.get(row["channel"])}
                for row in channel_rows(channels, max(largest, 1))
            ],
            "per_connection": self._connections,
        }

    def written(self) -> dict[str, Any]:
        files = self.recording.files
        return {
            "files": [each.path.name for each in files.files],
            "trace_bytes": files.size_bytes,
            "lost_events": self.recording.recorder.dropped_events,
        }

    def _name_channels(self, watch: RestWatch) -> None:
        self._named_channels = len(self.table)
        self._stated = replace(watch.settings, given=self.config.stated)
        self._jobs = watch.jobs
        self._places.place(
            self.table.channels, watch.jobs, watch.task_managers, watch.received, watch.sent
        )
        self._names = channel_names(self.recording.manifest())

    def _rest_document(self) -> dict[str, Any] | None:
        if (watch := self._watch) is None:
            return None
        manifest = self.recording.manifest()
        counted = ("channels", "local_channels")
        return {
            "has_answered": watch.has_answered,
            "error": watch.error,
            "jobs": [
                {
                    "id": job.id,
                    "name": job.name,
                    **dict(zip(counted, channels_of(job), strict=True)),
                }
                for job in watch.jobs
            ],
            "settings": [
                {"key": key, "value": manifest.flink_keys.get(key), "from": origin}
                for key, origin in (manifest.settings_from or {}).items()
            ],
            "edges": [
                {name: getattr(each, name) for name in ("number", "name", *counted)}
                for each in named_edges(manifest).values()
            ],
        }
