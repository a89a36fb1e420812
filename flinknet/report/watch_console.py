"""The newest part of traces that are still being written, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from flinknet.results import LatencyBounds, WatchedEdge, WatchLook
from flinknet.units import human_bytes, human_count, human_duration, human_number, human_share

from .console import LivePanel, print_view
from .headline import clauses_of
from .observed_tables import regime_bars
from .page_parts import Lines, Part, Row, Sentence, Table, View, heads

EDGES_SHOWN = 12


class WatchView(LivePanel):
    """A live panel where there is a terminal, else the panel once for each look.

    Args:
        has_details: show the time and the verdict of each edge, too.
    """

    def __init__(self, console: Console, path: str, *, has_details: bool = False) -> None:
        super().__init__(console)
        self._path = path
        self._has_details = has_details
        self._look: WatchLook | None = None
        self._waited_s = 0

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self.is_live and self._look is not None:
            self._print(self._look)

    def update(self, look: WatchLook) -> None:
        """Show a look."""
        self._look, self._waited_s = look, 0
        if self.is_live:
            self.draw(watch_view(look, self._path))
        else:
            self._print(look)

    def wait(self) -> None:
        """Count a second without a new look."""
        self._waited_s += 1
        self.draw(watch_view(self._look, self._path, self._waited_s))

    def _print(self, look: WatchLook) -> None:
        print_view(self.console, watch_view(look, self._path), has_details=self._has_details)


def watch_view(look: WatchLook | None, path: str, waited_s: int = 0) -> View:
    """Runs, edges and what limits them.

    Args:
        waited_s: since the last new event.
    """
    since = [f"no new event for {waited_s} s"] if waited_s else []
    if look is None:
        return View([Sentence("watching", [path, *since], "; ")])
    edges = look.edges[:EDGES_SHOWN]
    spans_ns = [each.to_ns - each.from_ns for each in edges]
    newest = [f"the last {human_duration(max(spans_ns))}"] if spans_ns else []
    waiting = [f"{name}: {text}" for name, text in look.waiting.items()]
    if not look.edges and not look.waiting:
        waiting = ["no trace file there or in a directory directly below it yet"]
    bars = regime_bars({_name(each): each.regimes for each in edges}, "time of channels")
    return View(
        [
            Sentence("watching", [path, f"{look.events:,} events read", *newest, *since], "; "),
            Sentence("verdict", _verdict(look), takes_rest=True),
            Sentence("waiting", waiting, "; "),
            Sentence("trust", _trust(edges), "; "),
            Sentence("next", _next(look, path), "; "),
        ],
        [_edges_table(look.edges)] if edges else [],
        [*bars, *_reasons(edges)],
    )


def _verdict(look: WatchLook) -> list[str]:
    """The limit of each job; of a run without one, the verdict on its edges."""
    is_one = len({each.run for each in look.edges}) == 1
    found = []
    for name, text in look.bottlenecks.items():
        first, *others = clauses_of(text)
        found += [first if is_one else f"{name}: {first}", *others]
        found[-1] = found[-1].rstrip(";.") + ";"
    if not found:
        found = [f"{_name(each)}: {each.why};" for each in look.edges if each.why]
    return found


def _trust(edges: Sequence[WatchedEdge]) -> list[str]:
    if any(edge.latency.until != "consumed" for edge in edges):
        return ["latency: at most, until a record passed the tap"]
    return []


def _next(look: WatchLook, path: str) -> list[str]:
    if not look.edges:
        return []
    return [f"when it has ended: flinknet trace replay {path}", "--details shows each edge"]


def _reasons(edges: Sequence[WatchedEdge]) -> list[Part]:
    return [Lines([f"  {_name(each)}: {each.why}" for each in edges])] if edges else []


def _edges_table(edges: Sequence[WatchedEdge]) -> Table:
    rows = [
        Row(
            [
                _name(edge),
                edge.verdict,
                human_count(edge.records_per_s),
                f"{human_bytes(edge.bytes_per_s)}/s",
                _bounds(edge.latency, edge.latency.p50_min_ns, edge.latency.p50_max_ns),
                _bounds(edge.latency, edge.latency.p99_min_ns, edge.latency.p99_max_ns),
                human_number(edge.backlog_buffers.mean),
                human_number(edge.backlog_buffers.max),
                human_share(edge.starved),
            ],
            is_strong=bool(edge.is_bottleneck),
        )
        for edge in edges[:EDGES_SHOWN]
    ]
    hidden = len(edges) - EDGES_SHOWN
    names = ("records/s", "bytes/s", "latency p50", "p99", "backlog", "max", "starved")
    return Table(
        heads("edge", "verdict", *names, texts=["verdict"]),
        rows,
        notes=[f"and {hidden} more edges"] if hidden > 0 else [],
    )


def _name(edge: WatchedEdge) -> str:
    return f"{edge.run}, {edge.edge_number} {edge.edge}" if edge.edge else edge.run


def _bounds(latency: LatencyBounds, least_ns: float | None, most_ns: float | None) -> str:
    if most_ns is None:
        return "unknown"
    return human_duration(most_ns) if least_ns == most_ns else f"at most {human_duration(most_ns)}"
