"""Emulated links as text: `rtt=2ms,bandwidth=1gbit,jitter=0.2ms,queue=256kb`, and lists of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from flinknet.config import Link
from flinknet.errors import ConfigError
from flinknet.units import (
    format_duration_ns,
    format_size_bytes,
    parse_duration_ns,
    parse_size_bytes,
)

NO_LINK = "none"
"""Text for plain sockets, without an emulated link."""

SEPARATOR = ";"
"""Character between links that are given one by one."""

_BITS = {"bit": 1, "kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?bit)(?:/s|ps)?", re.ASCII | re.IGNORECASE)
_RTT_MAX_NS = 60_000_000_000


def _bandwidth(text: str, name: str) -> float:
    match = _BANDWIDTH.fullmatch(text)
    bits = Decimal(match[1]) * _BITS[match[2].lower()] if match else Decimal(0)
    if bits != int(bits):
        raise ConfigError(f"{name}: {text!r} is no whole number of bits per second")
    if bits < 1000:
        raise ConfigError(f"{name}: {text!r} is not a bandwidth; write 100mbit, 1gbit or 56kbit")
    return float(bits / 8)


def _show_bandwidth(bytes_per_s: float) -> str:
    bits = round(bytes_per_s * 8)
    unit = next(each for each in reversed(_BITS) if bits % _BITS[each] == 0)
    return f"{bits // _BITS[unit]}{unit}"


def _time(text: str, name: str) -> int:
    time_ns = parse_duration_ns(text, name, bare_unit=None)
    if time_ns > _RTT_MAX_NS:
        raise ConfigError(f"{name}: {text!r} is too long; use {format_duration_ns(_RTT_MAX_NS)}")
    return time_ns


def _queue(text: str, name: str) -> int:
    size_bytes = parse_size_bytes(text, name)
    if size_bytes < 2048:
        raise ConfigError(f"{name}: {text!r} is too small; use 2kb or more")
    return size_bytes


PARAMETERS: Mapping[str, tuple[str, Callable[[str, str], Any], Callable[[Any], str]]] = {
    "rtt": ("rtt_ns", _time, format_duration_ns),
    "bandwidth": ("bandwidth_bytes_per_s", _bandwidth, _show_bandwidth),
    "jitter": ("jitter_ns", _time, format_duration_ns),
    "queue": ("queue_bytes", _queue, format_size_bytes),
}
"""Parameters of a link by name: field of `Link`, parser, and text."""


def parse_links(text: str, name: str = "--link") -> tuple[Link | None, ...]:
    """Parse links; None stands for plain sockets.

    A part without "=" is a further value of the parameter before it: `rtt=0,1ms,bandwidth=1gbit`
    is two links. All combinations of several values are made, the last parameter varying fastest;
    equal links are one.

    Args:
        name: option or key of the text, for errors.

    Raises: ConfigError.
    """
    found = (link for each in text.split(SEPARATOR) for link in _links(each.strip(), name))
    return tuple(dict.fromkeys(found))


def parse_link(text: str, name: str = "--link") -> Link | None:
    """Parse a single link. Raises: ConfigError, also for several."""
    links = parse_links(text, name)
    if len(links) > 1:
        raise ConfigError(f"{name}: {text!r} is {len(links)} links; give one")
    return links[0]


def _links(text: str, name: str) -> list[Link | None]:
    values: dict[str, list[Any]] = {}
    parameter, plain = "", 0
    for part in map(str.strip, text.split(",")):
        key, equals, value = map(str.strip, part.partition("="))
        if part == NO_LINK:
            plain += 1
            continue
        if equals:
            parameter = key
            if key not in PARAMETERS:
                known = ", ".join(PARAMETERS)
                raise ConfigError(f"{name}: {key!r} is no parameter of a link; use {known}")
            if key in values:
                raise ConfigError(
                    f"{name}: {text!r} has {key} twice; write {key}=A,B or --link twice"
                )
        elif not parameter:
            raise ConfigError(
                f"{name}: {text!r} is not a link; write {NO_LINK}, rtt=2ms or"
                " rtt=2ms,bandwidth=1gbit,jitter=0.2ms,queue=256kb"
            )
        _, parse, _ = PARAMETERS[parameter]
        values.setdefault(parameter, []).append(
            parse(value if equals else part, f"{name} {parameter}")
        )
    fields = [PARAMETERS[each][0] for each in values]
    found: list[Link | None] = [None] * min(plain, 1)
    for each in itertools.product(*values.values()) if values else ():
        link = Link(**dict(zip(fields, each, strict=True)))
        if 2 * link.jitter_ns > link.rtt_ns:
            raise ConfigError(
                f"{name}: a jitter of {format_duration_ns(link.jitter_ns)} is more than half of the"
                f" round trip of {format_duration_ns(link.rtt_ns)}, the delay of a direction"
            )
        found.append(link)
    return found


def show_link(link: Link | None, among: Sequence[Link | None] = ()) -> str:
    """The text of a link, which `parse_links` parses back.

    Args:
        among: links of a sweep: only parameters in which they differ are shown.
    """
    if link is None:
        return f"link={NO_LINK}" if among else NO_LINK
    default, others = Link(), [each for each in among if each is not None]
    parts = []
    for name, (field, _, show) in PARAMETERS.items():
        value = getattr(link, field)
        is_shown = value != getattr(default, field) or name == "rtt"
        if others:
            is_shown = len({getattr(other, field) for other in others}) > 1
        if is_shown:
            text = show(value) if value or name != "bandwidth" else "unlimited"
            parts.append(f"{name}={text}")
    return ("," if not among else " ").join(parts) or show_link(link)


def link_of(plain: Mapping[str, Any] | None) -> Link | None:
    """The link in the scenario of a manifest; None if the run had plain sockets."""
    return None if plain is None else Link(**{x: plain[x] for x, _, _ in PARAMETERS.values()})
