"""`flinknet trace synth`: makes a large trace with known answers from a scenario."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from flinknet.errors import ConfigError
from flinknet.units import human_bytes, human_duration

from .commands import SectionedCommand
from .files import STDOUT, CountingLine, check_new_directory, put_json, say_warnings, target_of
from .option_tables import options
from .options import Settings, collect, scenario_of

_DEFAULTS = {"rate": "20k/s", "producers": "2", "consumers": "2"}
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGbB]?)")
_MULTIPLES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


@click.command(cls=SectionedCommand)
@options(
    f"""
    [Load]
    --rate [default: {_DEFAULTS["rate"]}]
    --record-size
    --events N
        Make about N events, such as 10M or 1G, instead of --duration; the ends of channels, up to
        10 events each, are extra.
    --duration --warmup
    --skew EXPONENT
        Consumer i gets a share of the records in proportion to 1 / (i + 1) ** EXPONENT.
        [default: 0, round robin]
    [Tasks]
    --producers [default: {_DEFAULTS["producers"]}]
    --consumers [default: {_DEFAULTS["consumers"]}]
    --task-managers
    [Network]
    --buffer-timeout --exclusive-buffers --segment-size
    -D (define) KEY=VALUE ...
        Any Flink network key.
    [Output]
    --out DIR required
        New directory for the trace.
    --seed N = 1
        The same seed gives the same bytes.
    --json
    """,
    skew=click.FloatRange(min=0, max=10),
    out=click.Path(path_type=Path),
)
def synth(events: str | None, seed: int, out: Path, **values: Any) -> None:
    """Make a large trace in the form of a recorded one, without recording anything.

    \b
    flinknet trace synth --out big --events 100M
        a hundred million events of two producers and two consumers
    flinknet trace synth --out big --events 1G --producers 4 --consumers 4 \\
        --buffer-timeout 5ms
        a billion
    flinknet trace synth --out small --rate 200k/s --duration 10s --skew 1
        ten seconds; consumer 1 gets half of what consumer 0 gets

    Buffers are sent when the flusher fires and when they are full, as in a real run, and consumers
    keep up. So what a replay should find follows from the options.
    """
    from flinknet.predict.synth.plan import plan
    from flinknet.predict.synth.run import synthesize

    target = target_of(values["json"])
    if events is not None and values["duration"] is not None:
        raise ConfigError("--events and --duration both say where a run ends; give one of them")
    wanted = None if events is None else _number(events)
    settings = collect(values).over(Settings(workload=_DEFAULTS))
    scenario, warnings = scenario_of(settings, seed)
    say_warnings(warnings)
    planned = plan(scenario, skew=values["skew"] or 0.0, events=wanted)
    check_new_directory(out)
    if target != STDOUT:
        length = human_duration(planned.end_ns - planned.first_record_ns)
        click.echo(
            f"seed {seed}, about {planned.events:,} events over {length}, and up to"
            f" {planned.events_of_ends} for the ends of {len(planned.laws)} channels"
        )
    with CountingLine(f"of {planned.events:,} events") as line:
        made = synthesize(planned, out, line.show)
    document = {"path": str(made.path), "seed": seed, "events": made.events}
    document |= {"size_bytes": made.size_bytes, "is_interrupted": made.interrupted_by is not None}
    put_json(target, {"schema_version": 1, **document})
    if target != STDOUT:
        size = human_bytes(made.size_bytes)
        click.echo(f"{made.events:,} events in {size}: {made.path}")
    if made.interrupted_by is not None:
        click.echo("interrupted: what was written is complete", err=True)
        sys.exit(128 + made.interrupted_by)


def _number(text: str) -> int:
    match = _COUNT.fullmatch(text.strip().replace("_", ""))
    number = round(float(match[1]) * _MULTIPLES[match[2].lower()]) if match else 0
    if not number:
        raise ConfigError(f"--events: {text!r} is not a number of events, such as 10M or 1G")
    return number
