"""A layer as boxes and arrows, and as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .execution_graph import ExecutionGraph
from .job_graph import JobGraph
from .physical_plan import PhysicalPlan
from .stream_graph import StreamGraph

BOXES_MAX, ARROWS_MAX = 64, 512
"""Most subtasks and channels to draw; above it only vertices and TaskManagers are drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box with lines of text, in a group or alone."""

    id: str
    lines: tuple[str, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between boxes; `is_strong` arrows go over the network."""

    source: str
    target: str
    label: str = ""
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]


def stream_picture(graph: StreamGraph) -> Picture:
    return Picture(
        f"StreamGraph: {graph.job_name}",
        [
            Box(
                str(each.id), (f"{each.id} {each.operator_name}", f"parallelism {each.parallelism}")
            )
            for each in graph.nodes.values()
        ],
        [
            Arrow(str(each.source_id), str(each.target_id), str(each.partitioner))
            for each in graph.edges
        ],
    )


def job_picture(job: JobGraph) -> Picture:
    boxes = [
        Box(str(vertex.id), (vertex.name, f"parallelism {vertex.parallelism}", str(vertex.id)))
        for vertex in job.sorted_vertices()
    ]
    arrows = [
        Arrow(
            str(edge.source.producer.id),
            str(edge.target.id),
            f"{edge.ship_strategy} {edge.source.partition_type.label}",
        )
        for edge in job.edges
    ]
    return Picture(f"JobGraph: {job.name}", boxes, arrows)


def execution_picture(graph: ExecutionGraph) -> Picture:
    """Subtasks and channels; for a large job, vertices and numbers of channels."""
    title = f"ExecutionGraph: {graph.job.name}"
    if graph.total_vertices > BOXES_MAX or graph.channels > ARROWS_MAX:
        boxes = [
            Box(str(vertex.id), (vertex.name, f"{vertex.parallelism} subtasks"))
            for vertex in graph.vertices.values()
        ]
        arrows = [
            Arrow(
                str(edge.result.producer.id),
                str(edge.target.id),
                f"{edge.wiring.pattern.value}, {edge.wiring.channels} channels",
            )
            for edge in graph.edges
        ]
        return Picture(title, boxes, arrows)
    boxes = [Box(str(each.id), (each.name,), each.job_vertex.name) for each in graph.subtasks()]
    channels = (each for edge in graph.edges for each in edge.execution_edges())
    arrows = [Arrow(str(each.source.producer.id), str(each.target.id)) for each in channels]
    return Picture(title, boxes, arrows)


def physical_picture(plan: PhysicalPlan) -> Picture:
    """Tasks and channels, strong over the network; of a large job, TaskManagers and connections."""
    title = f"PhysicalPlan: {plan.graph.job.name}"
    if plan.tasks_total > BOXES_MAX or plan.channels_total > ARROWS_MAX:
        return _connections_picture(plan, title)
    boxes = [
        Box(f"{task.vertex}.{task.subtask}", (task.name,), f"tm-{task.task_manager}")
        for task in plan.tasks()
    ]
    arrows = [
        Arrow(
            f"{plan.edges[each.edge].source}.{each.producer}",
            f"{plan.edges[each.edge].target}.{each.consumer}",
            is_strong=not each.is_local,
        )
        for each in plan.channels()
    ]
    return Picture(title, boxes, arrows)


def _connections_picture(plan: PhysicalPlan, title: str) -> Picture:
    tasks = Counter(each for vertex in plan.vertices for each in vertex.task_managers)
    boxes = [
        Box(f"tm-{index}", (f"tm-{index}", f"{tasks[index]} tasks"))
        for index in range(plan.task_managers)
    ]
    if plan.connections_total > ARROWS_MAX:
        return Picture(f"{title} ({plan.connections_total} connections, not drawn)", boxes, ())
    connections = {each: sum(counts.values()) for each, counts in plan.connections()}
    if len(set(connections.values())) == 1:
        title = f"{title} ({max(connections.values())} channels on each connection)"
    arrows = [
        Arrow(f"tm-{each.producer}", f"tm-{each.consumer}", f"{count} channels", is_strong=True)
        for each, count in connections.items()
    ]
    return Picture(title, boxes, arrows)


BOX_WIDTH, LINE_HEIGHT, PADDING = 260, 16, 8
COLUMN_GAP, ROW_GAP, BAND_GAP, MARGIN = 170, 14, 34, 24
ARC_MAX = 200
"""Widest bend of backward arrows, to the right."""

LEGEND = "red: over the network"

LETTERS_MAX = 34
"""Characters of a line in a box; the full text is in its tooltip."""

STYLE = (
    "text{font:12px Helvetica,Arial,sans-serif;fill:#1b1f24}"
    ".title{font-size:16px;font-weight:bold}.group{fill:#57606a}.label{font-size:10px;fill:#57606a}"
    ".box{fill:#fff;stroke:#57606a;rx:5}.band{fill:#f6f8fa;stroke:#d0d7de;rx:8}"
    ".arrow{fill:none;stroke:#8c959f}.strong{fill:none;stroke:#cf222e}"
    ".key{font-size:11px;font-weight:normal;fill:#cf222e}"
)


def svg_of(picture: Picture) -> str:
    """Render the picture as a self-contained document."""
    columns = _columns(picture)
    places, bands = _places(picture, columns)
    right = max((x + BOX_WIDTH for x, _, _ in places.values()), default=0)
    arcs = ARC_MAX if any(_is_arc(arrow, columns) for arrow in picture.arrows) else 0
    has_strong = any(arrow.is_strong for arrow in picture.arrows)
    legend = f'<tspan class="key" dx="12">{LEGEND}</tspan>' if has_strong else ""
    title_width = 9 * len(picture.title) + (7 * len(LEGEND) if has_strong else 0)
    width = max(right, title_width) + arcs + 2 * MARGIN
    height = max((y + tall for _, y, tall in places.values()), default=0) + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN}">{escape(picture.title)}{legend}</text>',
    ]
    for name, top, bottom in bands:
        parts.append(
            f'<rect class="band" x="{MARGIN // 2}" y="{top}" width="{right - MARGIN // 2 + 12}"'
            f' height="{bottom - top}"/><text class="group" x="{MARGIN}" y="{top + 15}">'
            f"{escape(name)}</text>"
        )
    parts += [_arrow(arrow, columns, places) for arrow in picture.arrows]
    parts += [_box(box, *places[box.id]) for box in picture.boxes]
    return "\n".join([*parts, "</svg>"])


def _columns(picture: Picture) -> dict[str, int]:
    """Length of the longest path to each box from one without incoming arrows; 0 in cycles."""
    incoming: dict[str, set[str]] = {box.id: set() for box in picture.boxes}
    outgoing: dict[str, set[str]] = {box.id: set() for box in picture.boxes}
    for arrow in picture.arrows:
        incoming[arrow.target].add(arrow.source)
        outgoing[arrow.source].add(arrow.target)
    column = dict.fromkeys(incoming, 0)
    left = {box: len(sources) for box, sources in incoming.items()}
    ready = [box for box, count in left.items() if not count]
    for box in ready:
        for target in sorted(outgoing[box]):
            column[target] = max(column[target], column[box] + 1)
            left[target] -= 1
            if not left[target]:
                ready.append(target)
    return column


def _places(
    picture: Picture, columns: dict[str, int]
) -> tuple[dict[str, tuple[int, int, int]], list[tuple[str, int, int]]]:
    """Left, top and height of each box; name, top and bottom of each band. Groups whose boxes are
    in one column need no bands: the column shows them.
    """
    per_group: dict[str | None, set[int]] = {}
    for box in picture.boxes:
        per_group.setdefault(box.group, set()).add(columns[box.id])
    has_bands = any(group is not None and len(found) > 1 for group, found in per_group.items())
    places: dict[str, tuple[int, int, int]] = {}
    bands: list[tuple[str, int, int]] = []
    top = MARGIN + 2 * PADDING
    for group in per_group if has_bands else [None]:
        first = top + (22 if has_bands else 0)
        next_y: dict[int, int] = {}
        for box in picture.boxes:
            if has_bands and box.group != group:
                continue
            column, tall = columns[box.id], len(box.lines) * LINE_HEIGHT + PADDING
            y = next_y.get(column, first)
            places[box.id] = (MARGIN + column * (BOX_WIDTH + COLUMN_GAP), y, tall)
            next_y[column] = y + tall + ROW_GAP
        bottom = max(next_y.values(), default=first)
        if has_bands:
            bands.append((group or "", top, bottom))
        top = bottom + (BAND_GAP - ROW_GAP)
    return places, bands


def _box(box: Box, x: int, y: int, tall: int) -> str:
    full = "\n".join(box.lines)
    texts = "".join(
        f'<text x="{x + PADDING}" y="{y + number * LINE_HEIGHT}">{escape(_short(line))}</text>'
        for number, line in enumerate(box.lines, start=1)
    )
    return (
        f'<g><title>{escape(full)}</title><rect class="box" x="{x}" y="{y}" width="{BOX_WIDTH}"'
        f' height="{tall}"/>{texts}</g>'
    )


def _arrow(arrow: Arrow, columns: dict[str, int], places: dict[str, tuple[int, int, int]]) -> str:
    sx, sy, s_tall = places[arrow.source]
    tx, ty, t_tall = places[arrow.target]
    is_arc = _is_arc(arrow, columns)
    bend, shift, side = COLUMN_GAP // 2, 0, 0
    if is_arc:
        # around the right side, wider for longer distances; forth and back apart
        bend, side = min(ARC_MAX, 30 + abs(ty - sy) // 2), BOX_WIDTH
        shift = 4 if sy < ty else -4
    x1, y1 = sx + BOX_WIDTH, sy + s_tall // 2 + shift
    x2, y2 = tx + side, ty + t_tall // 2 + shift
    path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 + bend if is_arc else x2 - bend} {y2} {x2} {y2}"
    kind = "strong" if arrow.is_strong else "arrow"
    tip = f"<title>{escape(arrow.label)}</title>" if arrow.label else ""
    drawn = f'<path class="{kind}" d="{path}" marker-end="url(#tip)">{tip}</path>'
    if is_arc or not arrow.label:
        return drawn
    x, y = x1 + 6, (y1 * 2 + y2) // 3 - 4
    return f'{drawn}<text class="label" x="{x}" y="{y}">{escape(arrow.label)}</text>'


def _is_arc(arrow: Arrow, columns: dict[str, int]) -> bool:
    return columns[arrow.source] >= columns[arrow.target]


def _short(line: str) -> str:
    return line if len(line) <= LETTERS_MAX else line[: LETTERS_MAX - 1] + "…"
