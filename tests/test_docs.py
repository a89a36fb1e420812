"""README and the pages in docs/: files, links, commands, options, keys and examples are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from flinknet.cli import main
from flinknet.graph import Output, OutputTag, StreamExecutionEnvironment
from flinknet.graph.data_stream import DataStreamSink, DataStreamSource, KeyedStream
from flinknet.options.keys import current_keys
from tests.documented import ALL, PAGES, README, ROOT, below, commands_of

FILES = {
    each.relative_to(ROOT).as_posix()
    for room in ("flinknet", "bench", "tests")
    for each in (ROOT / room).rglob("*")
}
README_LINES_MAX = 180
WORDS_MAX = 37_700
NOT_OURS = {
    *("metrics.jsonl", "metrics.fetcher.update-interval"),
    *("metrics.internal.query-service.port", "taskmanager.rpc.port"),
    "security.ssl.rest.authentication-enabled",
}
"""What looks like one of flinknet's keys: a file, keys that only Flink's own processes read."""
FAMILIES = r"(?:taskmanager|jobmanager|execution|security|pipeline|metrics|heartbeat|slot|task)"


def named(values: object) -> object:
    """The ids of parametrized pages."""
    return values.name if isinstance(values, Path) else None


every_page = pytest.mark.parametrize("page", ALL, ids=named)


def own_options(command: click.Command) -> set[str]:
    """Names of the options of one command."""
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def check_command(words: list[str]) -> None:
    """Raises: AssertionError for a sub-command or an option that is not there."""
    command: click.Command = main
    rest = words[1:]
    while rest and rest[0] in below(command):
        command, rest = below(command)[rest[0]], rest[1:]
    if isinstance(command, click.Group) and not command.invoke_without_command:
        assert not rest, words
    given = rest[: rest.index("--")] if "--" in rest else rest
    used = {each.split("=")[0] for each in given if re.match(r"-\D", each)}
    assert not used - own_options(command) - {"--help"}, words


def all_options(command: click.Command) -> set[str]:
    """Names of the options of a command and of those below it."""
    return own_options(command).union(*map(all_options, below(command).values()))


@every_page
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    missing = [
        name
        for name in files
        if not any(f"/{each}".endswith(f"/{name.rstrip('/')}") for each in FILES)
    ]
    assert not missing
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert not [link for link in links if not (page.parent / link).exists()]


@every_page
def test_every_command_and_its_options_are_there(page: Path) -> None:
    for words in commands_of(page):
        check_command(words)


def test_commands_of_the_readme_are_found() -> None:
    assert len(list(commands_of(README))) >= 10
    with pytest.raises(AssertionError):
        check_command(["flinknet", "trace", "replay", "RUN", "--buffer-timeuot", "5ms"])
    with pytest.raises(AssertionError):
        check_command(["flinknet", "trace", "tapp"])


@every_page
def test_every_option_in_the_text_is_there(page: Path) -> None:
    files = [*(ROOT / "bench").rglob("*.py"), *(ROOT / "tests").rglob("__main__.py")]
    scripts = " ".join(each.read_text(encoding="utf-8") for each in files)
    text = re.sub(
        r"(?m)^(?:\$ (?:iptables|OTLP_ENDPOINT)|kubectl (?:debug|delete|patch|rollout|scale)).*$",
        "",
        page.read_text(encoding="utf-8"),
    )
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - all_options(main)
    options -= {"--help"}
    assert not {each for each in options if f'"{each}"' not in scripts}


@every_page
def test_every_key_of_flink_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    keys = set(re.findall(rf"`({FAMILIES}\.[a-z][\w.-]*\w)[`:=]", text)) - NOT_OURS
    assert not {each for each in keys if not any(key.startswith(each) for key in current_keys())}


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    readme = README.read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= README_LINES_MAX
    assert "](docs/pages.md)" in readme
    listed = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"]({page.name})" not in listed] == ["pages.md"]


def test_the_readme_and_the_pages_are_short_together() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in ALL) <= WORDS_MAX


def test_the_source_distribution_has_the_pages() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (included,) = re.findall(r"^include = \[(.*)\]$", text, re.MULTILINE)
    for each in ("docs", "mkdocs.yml", "mkdocs_hooks.py", "deploy", "README.md"):
        assert f'"{each}"' in included


def test_the_pages_become_a_site_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for page in PAGES:
        assert (tmp_path / f"{page.stem}.html").is_file()
    front = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="bench.html"' in front
    assert 'href="LICENSE"' in front


def test_the_site_lists_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:[\w ]+: )?(\w+\.md)$", text, re.MULTILINE)
    others = ["CHANGELOG.md", "SECURITY.md", "index.md"]
    assert sorted(listed) == sorted([*(page.name for page in PAGES), *others])


def test_the_job_of_the_page_builds_its_graph() -> None:
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    (cell,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    program = {"Output": Output, "OutputTag": OutputTag}
    exec(cell, program)
    env = StreamExecutionEnvironment()
    program["main"](env, str(README))
    (job,) = env.executed
    assert job.job_name == "Words"


def test_the_page_has_every_call_of_a_program() -> None:
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    classes = (StreamExecutionEnvironment, DataStreamSource, DataStreamSink, KeyedStream)
    calls = {name for each in classes for name in dir(each) if not name.startswith("_")}
    internal = {"from_source", "sink_to", "transform", "get_stream_graph"}
    internal |= {"set_uid_hash", "output_type"}
    assert not {name for name in calls - internal if f"`{name}(" not in text}
