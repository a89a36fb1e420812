"""Files and services for the results of a bench: JSON, CSV, a histogram, live values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.errors import ConfigError
from flinknet.loopback import loopback
from flinknet.storage import AnyPath, path_of
from flinknet.units import format_address

from .files import STDOUT, check_stdout, check_writable_file, growing_file, put_text, target_of
from .value_parsers import PORT_MAX

if TYPE_CHECKING:
    from rich.console import Console

    from flinknet.report.live import RunsView
    from flinknet.results.comparison import Configuration
    from flinknet.runtime.metrics_endpoint import MetricsEndpoint


_HISTOGRAM_SUFFIXES = (".hlog", ".csv")


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Target of each format; None if not wanted, STDOUT for the only format on stdout."""

    json: AnyPath | str | None
    csv: AnyPath | str | None
    histogram: AnyPath | None
    live_json: Path | str | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ResultFiles:
        """Read the options. Raises: ConfigError for a file that cannot be written."""
        check_stdout(values, "json", "csv", "live_json")
        histogram = None
        if values["histogram"] is not None:
            histogram = path_of(values["histogram"])
            check_writable_file(histogram, "--histogram")
        if histogram is not None and not str(histogram).endswith(_HISTOGRAM_SUFFIXES):
            raise ConfigError(
                f"--histogram: {histogram} ends in neither .hlog (HdrHistogram) nor .csv"
            )
        return cls(
            target_of(values["json"]),
            target_of(values["csv"], "--csv"),
            histogram,
            growing_file(values["live_json"], "--live-json"),
        )

    @property
    def takes_stdout(self) -> bool:
        """Whether one of these formats is the only output on stdout."""
        return STDOUT in (self.json, self.csv, self.live_json)

    def write(self, settings: Sequence[Configuration], started_at: str | None) -> None:
        """Write CSV and histogram of the runs so far; the first started at `started_at` (ISO)."""
        from flinknet.report.export import csv_text, histogram_rows, runs_csv

        if self.csv is not None:
            put_text(self.csv, runs_csv(settings))
        if self.histogram is None:
            return
        if self.histogram.suffix == ".csv":
            put_text(self.histogram, csv_text(histogram_rows(settings)))
        else:
            _write_hdr(self.histogram, settings, started_at)


@contextmanager
def watching(talk: Console, files: ResultFiles, metrics_port: str | None) -> Iterator[RunsView]:
    """A view of runs that also writes and serves live values where the options ask for it."""
    from flinknet.report.live import RunsView, live_json, live_metrics

    with ExitStack() as stack:
        watcher = RunsView(talk)
        if metrics_port is not None:
            endpoint = metrics_endpoint(metrics_port, talk)
            stack.callback(endpoint.close)
            watcher.followers.append(live_metrics(endpoint.publish))
        if isinstance(files.live_json, str):
            watcher.followers.append(live_json(sys.stdout))
        elif files.live_json is not None:
            file = stack.enter_context(files.live_json.open("w", encoding="utf-8"))
            watcher.followers.append(live_json(file))
        yield stack.enter_context(watcher)


def metrics_endpoint(text: str, talk: Console) -> MetricsEndpoint:
    """Serve metrics and print the address. Raises: ConfigError, LocalTransportError."""
    from flinknet.runtime.metrics_endpoint import MetricsEndpoint

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError(f"--metrics-port: {text!r} is not a port; write 9249 or 0.0.0.0:9249")
    endpoint = MetricsEndpoint(host.strip("[]") or loopback(), int(port))
    talk.print(
        f"metrics: http://{format_address(*endpoint.address)}/metrics",
        soft_wrap=True,
        highlight=False,
        style="dim",
    )
    return endpoint


def _write_hdr(path: AnyPath, settings: Sequence[Configuration], started_at: str | None) -> None:
    from flinknet.export.hdr import RunLatencies, write_records_hdr

    write_records_hdr(
        path,
        [
            RunLatencies.of_ranges(
                f"{setting.name or 'run'}-{number}",
                result.measured.duration_ns,
                known.low_ns,
                known.high_ns,
                known.records,
            )
            for setting in settings
            for number, result in enumerate(setting.results, start=1)
            if (known := result.latency_distribution) is not None
        ],
        started_at,
    )
