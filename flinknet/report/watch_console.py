"""The newest part of traces that are still being written, on a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flinknet.results import LatencyBounds, WatchedEdge, WatchLook
from flinknet.units import human_bytes, human_count, human_duration, human_number, human_share

from .small_plots import regime_legend, split_bar

EDGES_SHOWN = 12
BAR_MARKS = 24


class WatchView:
    """A live panel where there is a terminal, else the panel once for each look."""

    def __init__(self, console: Console, path: str) -> None:
        self._console = console
        self._path = path
        self._look: WatchLook | None = None
        self._waited_s = 0
        self._live = (
            Live(console=console, transient=True, refresh_per_second=2)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> WatchView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            if self._look is not None:
                self._console.print(panel(self._look, self._path))

    def update(self, look: WatchLook) -> None:
        """Show a look."""
        self._look = look
        self._waited_s = 0
        if self._live is None:
            self._console.print(panel(look, self._path))
        else:
            self._live.update(panel(look, self._path))

    def wait(self) -> None:
        """A second has passed without a new look."""
        self._waited_s += 1
        if self._live is not None:
            self._live.update(panel(self._look, self._path, self._waited_s))


def panel(look: WatchLook | None, path: str, waited_s: int = 0) -> RenderableType:
    """Runs, edges and what limits them.

    Args:
        waited_s: since the last new event.
    """
    since = f", no new event for {waited_s} s" if waited_s else ""
    if look is None:
        return Text(f"watching {path}{since}")
    heading = Text.assemble(
        ("watching ", "bold"), (path, "bold"), f": {look.events:,} events read{since}"
    )
    parts: list[RenderableType] = [heading]
    if look.edges:
        parts.append(_edges_table(look.edges))
    hidden = len(look.edges) - EDGES_SHOWN
    if hidden > 0:
        parts.append(Text(f"  and {hidden} more edges", style="dim"))
    for edge in look.edges[:EDGES_SHOWN]:
        if edge.regimes is not None:
            bar = Text.assemble(f"  {_name(edge)}: ", split_bar(edge.regimes, BAR_MARKS), "  ")
            parts.append(bar + regime_legend(edge.regimes))
    for name, text in look.bottlenecks.items():
        parts.append(Text.from_markup(f"[bold]Bottleneck of {escape(name)}:[/bold] {escape(text)}"))
    for edge in look.edges[:EDGES_SHOWN]:
        parts.append(Text(f"  {_name(edge)}: {edge.why}"))
    if not look.edges and not look.waiting:
        parts.append(Text("  no trace file there or in a directory directly below it yet"))
    for name, text in look.waiting.items():
        parts.append(Text(f"  {name}: {text}", style="yellow"))
    return Group(*parts)


def _edges_table(edges: tuple[WatchedEdge, ...]) -> Table:
    span_ns = max(edge.to_ns - edge.from_ns for edge in edges)
    title = f"the last {human_duration(span_ns)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in ("edge", "verdict"):
        table.add_column(name)
    for name in ("records/s", "bytes/s", "latency p50", "p99", "backlog", "max", "starved"):
        table.add_column(name, justify="right")
    for edge in edges[:EDGES_SHOWN]:
        backlog = edge.backlog_buffers
        table.add_row(
            Text(_name(edge), style="bold" if edge.is_bottleneck else ""),
            edge.verdict,
            human_count(edge.records_per_s),
            f"{human_bytes(edge.bytes_per_s)}/s",
            _bounds(edge.latency, edge.latency.p50_min_ns, edge.latency.p50_max_ns),
            _bounds(edge.latency, edge.latency.p99_min_ns, edge.latency.p99_max_ns),
            human_number(backlog.mean),
            human_number(backlog.max),
            human_share(edge.starved),
        )
    if any(edge.latency.until != "consumed" for edge in edges):
        table.caption = "latency: at most, until a record passed the tap"
        table.caption_justify = "left"
    return table


def _name(edge: WatchedEdge) -> str:
    return f"{edge.run}, {edge.edge_number} {edge.edge}" if edge.edge else edge.run


def _bounds(latency: LatencyBounds, least_ns: float | None, most_ns: float | None) -> str:
    if most_ns is None:
        return "unknown"
    return human_duration(most_ns) if least_ns == most_ns else f"at most {human_duration(most_ns)}"
