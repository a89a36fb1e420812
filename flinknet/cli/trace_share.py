"""`flinknet trace share`: a recording and its answer in one file, for a colleague or an issue."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from contextlib import chdir
from html import escape
from pathlib import Path

import click

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath

from .commands import SectionedCommand
from .files import check_writable_file, path_of_runs, put_text
from .option_tables import options

KEY_BYTES = 32
PAGES = (".html", ".htm")
_PLAIN_PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    "<title>{}</title></head><body>\n</body></html>\n"
)
IDS_SHOWN = 8
"""Ids of a field that --check shows; it says how many more there are."""


@click.command(cls=SectionedCommand)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=path_of_runs)
@options(
    """
    [Output]
    --out FILE.html
        File to write. [default: RUN's pseudonym, or its name with --names]
    --answer/--no-answer
        Put the answer of `trace replay` into the page; it needs Spark. [default: answer]
    [Names]
    --names
        Keep names, addresses and ids as they are.
    --key-file FILE
        Key of the pseudonyms, made if it is not there. Keep it to yourself: the same key gives the
        same pseudonyms. [default: ~/.config/flinknet/share.key]
    [Look]
    --check
        Print every text in a page that was shared, and make nothing.
    """,
    key_file=click.Path(path_type=Path),
)
def share(
    runs: tuple[AnyPath, ...],
    out: str | None,
    answer: bool,
    names: bool,
    key_file: Path | None,
    check: bool,
) -> None:
    """Put a recording into one file: a page with the answer, and the trace in it.

    \b
    flinknet trace share tapped --out shared.html
        with pseudonyms for names, addresses and ids
    flinknet trace share --check shared.html
        what a stranger can learn from it
    flinknet trace import shared.html --out run
        the other side: the trace again, for replay, info and export

    The page opens in any browser, without flinknet and without a network. A trace holds no payload:
    lengths, times and counts of messages. Settings, versions and the environment stay readable;
    anything else that is text becomes a pseudonym, unless --names keeps it.
    """
    given = [_local(each) for each in runs]
    if check:
        for each in given:
            _print_texts(each)
        return
    if pages := [each for each in given if each.suffix in PAGES]:
        raise ConfigError(f"{pages[0]}: is a page; look into it with --check, or `trace import` it")
    from flinknet.trace import find_runs

    paths = [_local(run) for each in given for run in find_runs(each)]
    if out and Path(out).suffix not in PAGES:
        raise ConfigError(f"--out: {out} must end in .html")
    from flinknet.trace.share import Pseudonyms, copy_run, with_recording

    pseudonyms = None
    if not names:
        if key_file is None:  # only then does this need a home directory
            base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
            key_file = Path(base, "flinknet", "share.key")
        pseudonyms = Pseudonyms(_key(key_file))
    # the file and the answer name the recording by its directory
    name = given[0].resolve().name
    title = pseudonyms.text(name, "run") if pseudonyms else Path(out).stem if out else name
    target = Path(out or f"{title}.html")
    if not out and target.exists():
        raise ConfigError(f"{target} exists already; give another file with --out")
    check_writable_file(target, "--out")
    with tempfile.TemporaryDirectory(prefix="flinknet-share-") as work:
        copies = Path(work, "runs", title)
        for number, each in enumerate(paths, start=1):
            own = copies / f"run-{number}" if len(paths) > 1 else copies
            for line in copy_run(each, own, pseudonyms):
                click.echo(f"flinknet: {line}", err=True)
        page = _PLAIN_PAGE.format(escape(title))
        if answer:
            from .trace_replay import replay

            report = Path(work, "answer.html")
            with chdir(copies.parent):  # so that the page does not say where
                replay.main([title, "--report", str(report)], standalone_mode=False)
            page = report.read_text("utf-8")
        put_text(target, with_recording(page, copies))
    size = target.stat().st_size
    what = "names stay as they are"
    if pseudonyms is not None:
        what = f"{pseudonyms.replaced} names and ids have pseudonyms"
    click.echo(f"{target}: {size:,} bytes; {what}; no payload is in it")
    click.echo(f"before you send it: flinknet trace share --check {target}")
    click.echo(f"the other side: flinknet trace import {target.name} --out run")


def _local(path: AnyPath) -> Path:
    if not isinstance(path, Path):
        raise ConfigError(f"{path}: copy it to this machine first")
    return path


def _key(path: Path) -> bytes:
    """The key in a file, which is made for its owner alone if it is not there."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(secrets.token_hex(KEY_BYTES) + "\n")
        key = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise ConfigError(f"--key-file: {path}: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) < KEY_BYTES // 2:
        raise ConfigError(f"--key-file: {path} is no key; name a new file, and one is made")
    return key


def _print_texts(path: Path) -> None:
    """Every text in a page, by file and field."""
    from flinknet.report.plain_text import printable
    from flinknet.trace.share import texts_in

    for file, field, texts in texts_in(path):
        ids = [text for text in texts if re.fullmatch(r"[-0-9a-f#_]{32,}", text)]
        hidden = set(ids[IDS_SHOWN:])
        shown = [printable(text) for text, _ in texts.most_common() if text not in hidden]
        more = f" … {len(hidden)} more ids" if hidden else ""
        click.echo(f"{file}  {field or 'text'}: {', '.join(shown)}{more}")
    click.echo(
        "events (*.fnt): numbers alone: instants, lengths, sequence numbers, credit, backlog"
    )
