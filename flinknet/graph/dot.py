"""A picture in the language of Graphviz."""

from __future__ import annotations

from .picture import Box, Picture


def dot_of(picture: Picture) -> str:
    """The picture as a digraph, from left to right; groups become clusters."""
    lines = [
        f"digraph {_quoted(picture.title)} {{",
        f"  label={_quoted(picture.title)}; labelloc=t; rankdir=LR; fontname=Helvetica;",
        '  node [shape=box, fontname=Helvetica, fontsize=10, style="rounded"];',
        "  edge [fontname=Helvetica, fontsize=9];",
    ]
    groups: dict[str | None, list[Box]] = {}
    for box in picture.boxes:
        groups.setdefault(box.group, []).append(box)
    for number, (group, boxes) in enumerate(groups.items()):
        if group is not None:
            lines.append(f"  subgraph cluster_{number} {{ label={_quoted(group)};")
        lines += [f"  {_quoted(box.id)} [label={_quoted(*box.lines)}];" for box in boxes]
        if group is not None:
            lines.append("  }")
    for arrow in picture.arrows:
        style = "color=firebrick" if arrow.is_strong else "color=gray40"
        label = f", label={_quoted(arrow.label)}" if arrow.label else ""
        lines.append(f"  {_quoted(arrow.source)} -> {_quoted(arrow.target)} [{style}{label}];")
    return "\n".join([*lines, "}"])


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
