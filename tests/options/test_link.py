"""The grammar of emulated links."""

from __future__ import annotations

import pytest

from flinknet.config import Link
from flinknet.errors import ConfigError
from flinknet.options.link import link_of, parse_link, parse_links, show_link

MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("none", [None]),
        (
            "rtt=2ms,bandwidth=1gbit,jitter=0.2ms,queue=256kb",
            [Link(2 * MS, 125_000_000.0, MS // 5, 256 * 1024)],
        ),
        ("rtt=0,1ms,10ms", [Link(), Link(MS), Link(10 * MS)]),
        (
            "rtt=0,1ms,bandwidth=100mbit,1gbit",
            [Link(rtt, float(bits)) for rtt in (0, MS) for bits in (12_500_000, 125_000_000)],
        ),
        ("none;rtt=1ms", [None, Link(MS)]),
        ("rtt=1ms,none", [None, Link(MS)]),
        ("bandwidth=56kbit", [Link(0, 7000.0)]),
        ("rtt=1ms,1000us;none;rtt=1ms;none", [Link(MS), None]),
    ],
)
def test_a_value_without_a_name_is_one_more_of_the_parameter_before_it(
    text: str, links: list[Link | None]
) -> None:
    assert list(parse_links(text)) == links


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2ms", "is not a link"),
        ("", "is not a link"),
        ("rtt=2", "has no unit"),
        ("delay=2ms", "no parameter of a link"),
        ("rtt=2ms,rtt=3ms", "has rtt twice"),
        ("bandwidth=1gb", "not a bandwidth"),
        ("bandwidth=33.33333kbit", "no whole number of bits"),
        ("queue=1b", "too small"),
        ("rtt=2h", "too long"),
        ("rtt=1ms,jitter=1ms", "more than half"),
    ],
)
def test_a_wrong_link_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_links(text)


def test_several_links_are_refused_where_one_is_wanted() -> None:
    with pytest.raises(ConfigError, match="2 links; give one"):
        parse_link("rtt=1ms,2ms")


@pytest.mark.parametrize(
    "text",
    ["none", "rtt=0ns", "rtt=2ms,bandwidth=1gbit,jitter=200us,queue=128kb", "bandwidth=33.333kbit"],
)
def test_the_text_of_a_link_is_parsed_back(text: str) -> None:
    link = parse_link(text)
    assert parse_link(show_link(link)) == link


def test_a_sweep_names_the_parameters_in_which_links_differ() -> None:
    links = parse_links("none;rtt=1ms,2ms,bandwidth=1gbit")
    assert [show_link(each, links) for each in links] == ["link=none", "rtt=1ms", "rtt=2ms"]


def test_a_manifest_keeps_the_link() -> None:
    plain = {"rtt_ns": 5, "bandwidth_bytes_per_s": 7.0, "jitter_ns": 1, "queue_bytes": 4096}
    assert link_of(plain) == Link(5, 7.0, 1, 4096)
    assert link_of(None) is None
