"""Configuration files give the network memory, values and refusals of Flink's own classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet import options
from flinknet.errors import ConfigError
from flinknet.options.keys import FAMILIES, MEMORY_SIZES, current_keys, is_of_network
from flinknet.options.values import parse_value

from .drawn_files import ANSWERS, FILES, REFUSED, RELEASES, answers_of_flink, harness, releases_of

STORED: list[dict[str, Any]] = json.loads(ANSWERS.read_text())
CASES = [
    pytest.param(each, release, id=f"{number}-{release}")
    for number, each in enumerate(STORED)
    for release in releases_of(each["name"])
]
MS = 1_000_000


def answer_of_flinknet(path: Path, release: str) -> tuple[int, int, dict[str, str]] | str:
    """Buffers, bytes of network memory and texts by key; why it is refused."""
    try:
        settings, _ = options.read_flink_conf(path, release)
        options.check_total(settings)
        network, _ = options.network_config(settings)
    except ConfigError as error:
        return str(error)
    size_bytes = network.network_memory_bytes
    return size_bytes // network.segment_size_bytes, size_bytes, settings


def differences(path: Path, release: str, flink: dict[str, Any]) -> list[str]:
    """Where flinknet's answer is another than Flink's."""
    ours = answer_of_flinknet(path, release)
    if isinstance(ours, str) or REFUSED in flink:
        is_same = isinstance(ours, str) == (REFUSED in flink or flink["buffers"] == 0)
        return [] if is_same else [f"flinknet: {ours}, Flink: {flink}"]
    buffers, size_bytes, settings = ours
    found = []
    if (buffers, size_bytes) != (flink["buffers"], flink["bytes"]):
        found.append(f"flinknet: {buffers} buffers, {size_bytes} bytes, Flink: {flink}")
    for key, text in settings.items():
        option = options.find_option(key)
        if key not in flink["values"] or key in MEMORY_SIZES or option.kind not in "DMIN":
            continue
        value = parse_value(option, text)
        value = value // MS if option.kind == "D" else value
        if str(value) != flink["values"][key]:
            found.append(f"{key}: {value}, Flink: {flink['values'][key]}")
    return found


@pytest.mark.parametrize(("stored", "release"), CASES)
def test_a_drawn_file_gives_what_flink_gives(
    tmp_path: Path, stored: dict[str, Any], release: str
) -> None:
    path = tmp_path / stored["name"]
    path.write_text(stored["text"], encoding="utf-8")
    assert differences(path, release, stored[release]) == []


def test_stored_answers_are_of_enough_files_and_of_all_kinds() -> None:
    answers = [each[release] for each in STORED for release in releases_of(each["name"])]
    assert len(STORED) == FILES
    assert len(answers) // 4 < sum(REFUSED in each for each in answers) < len(answers) * 3 // 4


@pytest.fixture(scope="module", params=list(RELEASES))
def flink(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Callable[..., list[list[str]]]]:
    """A release, and a call of its classes."""
    try:
        return request.param, harness(request.param, tmp_path_factory.mktemp("classes"))
    except FileNotFoundError as error:
        pytest.skip(f"{error}; make flink installs the jars")


def test_stored_answers_are_those_of_flink(
    flink: tuple[str, Callable[..., list[list[str]]]], tmp_path: Path
) -> None:
    release, call = flink
    stored = [each for each in STORED if release in releases_of(each["name"])]
    answers = answers_of_flink(call, [(each["name"], each["text"]) for each in stored], tmp_path)
    assert answers == [each[release] for each in stored]


def test_the_table_has_flinks_own_spellings_and_defaults(
    flink: tuple[str, Callable[..., list[list[str]]]],
) -> None:
    release, call = flink
    of_flink = {key: rest for key, *rest in call("options")}
    others = of_flink.keys() - current_keys().keys()
    assert not [key for key in others if is_of_network(key) and not key.startswith(FAMILIES)]
    for option in options.options().values():
        default = option.default_1_20 if release == options.FLINK_1 else option.default_2_3
        is_there = default != "-" and not default.startswith("fixed")
        assert (option.key in of_flink) is is_there, option.key
        if not is_there:
            continue
        _, text, deprecated, fallback = of_flink[option.key]
        older = set(filter(None, deprecated.split(","))) - {option.key}
        assert set(option.older_keys) == older, option.key
        # The others of `~` are in the code that reads the option, such as SSLUtils.
        others = {each for each in option.fallback_keys if not each.startswith("security.ssl.")}
        assert others == set(filter(None, fallback.split(","))), option.key
        if option.kind in "DM" and default != "unset":
            value = parse_value(option, default)
            assert str(value // MS if option.kind == "D" else value) == text, option.key
        elif option.kind in "ILBFN":
            assert default.replace("unset", "null") == text, option.key
