"""Options as texts in the form of their help, and the options that several commands have.

A table has a line for each option, with its help below, indented:

    [Heading]                       section of the help
    --port PORT[-PORT] ...          names and metavar; "..." may be repeated
    --interface NAME = any          a default, which the help shows
    --out DIR required
    --json [FILE]                   the value may be left out, and is then "-"
    --follow                        without a metavar: a flag
    --trace/--no-trace              a pair: the first is the default, unless its help has another
    -D (define) KEY=VALUE           name of the parameter, where the option does not have it
    ~ --ring TIME                   rare: named in the help, explained by --help-all
    --details --json                without a help: of SHARED, where else is a section
    --rate --link [default: none]   the same with another default in the help
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any, TypeVar

import click

from flinknet import config
from flinknet import options as flink
from flinknet.options.what_if import WORDS
from flinknet.units import format_duration_ns

from .commands import OTHERS, SectionedOption, WholeNumber, flink_keys, words
from .files import STDOUT

DEFAULT_DURATION_NS = 3_000_000_000

NETWORK_OPTIONS: Mapping[str, str] = {
    "buffer-timeout": flink.BUFFER_TIMEOUT,
    "exclusive-buffers": flink.EXCLUSIVE_BUFFERS,
    "floating-buffers": flink.FLOATING_BUFFERS,
    "segment-size": flink.SEGMENT_SIZE,
    "checkpoint-interval": flink.CHECKPOINT_INTERVAL,
}
"""Options for Flink's keys, by name."""

NETWORK = " ".join(f"--{name}" for name in NETWORK_OPTIONS)
KEYS = "-D --flink-conf"
LOAD = " ".join(
    (
        "--rate --record-size --arrivals --duration --records --warmup --slow-consumer",
        "--producers --consumers --partitioner --keys --key-skew",
        "--relays --relay-parallelism --relay-delay --placement --task-managers",
        f"--link --flow-control --partition-type --scheduling {NETWORK} {KEYS}",
    )
)
WORKERS = "--workers --secret-file"
REST_FILES = "--rest-token-file --rest-ca --rest-cert --rest-key"
SPARK = "--master --remote --spark-conf --properties-file --ship"

SHARED = f"""
[Comparison]
--fail-if LIMIT ...
    Exit with 1 if a change is beyond LIMIT, such as 'p99>+10%'. May be repeated.
--baseline FILE
    JSON of an earlier comparison or of bench; the candidate in it is the baseline.
--confidence PERCENT = 95%
    Confidence level of the intervals.
--repeat-disturbed N = 2
    Repeat a run that is invalid or disturbed by other processes, at most N times.
--fail-on-disturbed
    Exit with 3 if a run is still disturbed after being repeated.
[Load]
--rate RATE
    Records per second of each producer, such as 20k/s. [default: max, as fast as possible]
--record-size SIZE
    Size of a record's value: a size, 100b..1kb (uniform) or exponential:200b (mean 200b).
    [default: 100b]
--arrivals {"|".join(config.ARRIVAL_LAWS)}
    Spread of records over time; on-off:50ms:150ms sends for 50 ms at four times the rate, then
    pauses for 150 ms. [default: constant]
--duration TIME
    Length of the measured part. Records due in it are sent for up to 10s after its end.
    [default: {format_duration_ns(DEFAULT_DURATION_NS)}]
--records N
    Records that each producer sends in the measured part, instead of --duration.
--warmup TIME
    Time before the measured part; recorded, but not measured. [default: 500ms]
--slow-consumer INDEX:DELAY[:TIME] ...
    Consumer INDEX spends DELAY on each record, or stops (`pause`), for the whole run or the first
    TIME of the measured part. May be repeated.
--edge N
    Number of the exchange to send again, if a tap or a capture has several.
--control/--no-control
    Run the recorded setting first. This shows whether this machine is as fast as that of the
    recording, and changes are relative to this run. [default: control]
[Tasks]
--producers N
    Producing tasks. [default: 1]
--consumers N
    Consuming tasks. [default: 1]
--partitioner NAME
    Which consumer gets a record: {", ".join(config.PARTITIONERS)}.
    [default: rebalance]
--keys N
    Number of different keys, for --partitioner hash. [default: 1048576]
--key-skew EXPONENT
    Zipf exponent: 1 makes the second most frequent key half as frequent as the first. [default: 0]
--relays N
    Stages between producers and consumers that pass records on. [default: 0]
--relay-parallelism N[,N...]
    Tasks in a stage of relays: one number for all stages, or one for each.
    [default: as many as producers]
--relay-delay TIME[,TIME...]
    Time that a relay spends on a record: one for all stages, or one for each. [default: 0]
--placement {"|".join(config.PLACEMENTS)}
    split: producers and consumers on separate TaskManagers, so that all channels are remote.
    spread: task i of each stage on the same TaskManager, so that some are local. [default: split]
--task-managers N
    Number of TaskManager processes. [default: 2 + one per relay]
--slots N
    Slots of each TaskManager. [default: taskmanager.numberOfTaskSlots]
--cluster DIR
    Join the cluster that runs in DIR, next to its other jobs.
--workers LIST
    HOST:PORT of each `flinknet worker` to run on. [default: this machine]
--secret-file FILE
    Secret that workers and launchers share; readable by you alone.
[Exchange]
--link LINK ...
    Emulated wire between TaskManagers: some of rtt=2ms,bandwidth=1gbit,jitter=0.2ms,queue=256kb.
    May be repeated. [default: none, plain sockets]
--flow-control {"|".join(config.FLOW_CONTROLS)}
    credit; or tcp, as before Flink 1.5, where a slow channel stops all others of its connection.
    [default: credit]
--partition-type TYPE
    {", ".join(config.PARTITION_TYPES[:-1])}: consumers read while producers write;
    {config.PARTITION_TYPES[-1]}: once everything is written.
    [default: pipelined-bounded, or as execution.runtime-mode and .batch-shuffle-mode imply]
--scheduling WHEN
    When consumers start: {", ".join(config.SCHEDULINGS[:-1])} or {config.SCHEDULINGS[-1]}.
    [default: complete-output for blocking exchanges, else all-at-once]
[Peer]
--listen HOST:PORT
    Address that TaskManagers connect to; port 0: any. [default: 127.0.0.1:0]
--partition ID ...
    The ResultPartitionID to serve, as Flink's logs print it
    (DATASET#PARTITION@GRAPH_VERTEX_SUBTASK_ATTEMPT) or as the 120 hexadecimal digits of its bytes.
    May be repeated, with a producer for each. [default: one is made up]
--subpartition N ...
    Which subpartition of each partition to read. May be repeated. [default: 0]
--stamped
    The records have flinknet's form: check that each arrives once and in order. Without it, records
    of any form are counted.
[Network]
--buffer-timeout LIST
    How long a record may wait in a buffer that is not full; 0 sends each record at once, -1 sends
    only full buffers. [default: 100ms]
--exclusive-buffers LIST
    Exclusive buffers of each channel; ignored by Flink 2.x. [default: 2]
--floating-buffers LIST
    Buffers of each gate for any of its channels; ignored by Flink 2.x. [default: 8]
--segment-size LIST
    Size of a buffer. [default: 32kb]
--checkpoint-interval LIST
    How often checkpoint barriers are sent; their alignment follows Flink's execution.checkpointing
    keys. [default: never]
-D (define) KEY=VALUE ...
    Any of Flink's network keys; overrides --flink-conf. May be repeated.
--flink-conf FILE
    Take keys from a config.yaml or FlinkDeployment.
[Output]
--runs N = 1
    Runs of each setting, interleaved.
--seed N = 1
    The same seed gives the same arrivals, sizes and keys.
--out DIR
    Directory for the runs. [default: a new one in flinknet-runs, if traces are kept]
--trace/--no-trace
    Record every message, for `trace`. [default: trace]
--detached
    Submit the job, print the commands that show and end it, and do not wait for it.
--json [FILE]
    Write the result as JSON to FILE; without FILE, print it and nothing else.
--markdown FILE|-
    Write a comment for a pull request, in Markdown; - prints only that.
--junit FILE|-
    Write JUnit XML; - prints only that.
--csv FILE|-
    Write the table as CSV, with units in column names; - prints only the CSV.
--report FILE
    Write an HTML page that works without a network.
--plot FILE
    Draw the main chart: FILE.svg or FILE.png.
--metrics-port [HOST:]PORT
    Serve live values to Prometheus at /metrics. [default HOST: 127.0.0.1]
--details
    Show all figures and doubts in full, not only those that decide.
[{OTHERS}]
--find LIMIT
    Search the highest rate that keeps LIMIT, such as 'p99<=20ms' or 'backlog<=5'.
--find-within PERCENT = 3%
    Precision of --find.
--start-condition
    Which of its blocking inputs a task waits for: all of them, or any one. The program's own
    setting overrides it. [default: all]
--edge-timeout EDGE=TIMEOUT,... ...
    For a job of several exchanges: one more setting, with other timeouts on some edges, as
    setBufferTimeout sets them. EDGE: its number, or a part of its name. May be repeated.
[Flink]
--rest-token-file FILE
    File whose first line is sent to --rest: a bearer token, or user:password.
--rest-ca FILE
    PEM file: the authority that signed the certificate of --rest. [default: those of the system, or
    SSL_CERT_FILE]
--rest-cert FILE
    PEM file: a client certificate for --rest.
--rest-key FILE
    PEM file: the key of --rest-cert. [default: in the file of --rest-cert]
[Spark]
--master URL
    Spark master, such as local[2], spark://host:7077, yarn or k8s://https://host:443. Traces on a
    file system must have the same path on all of its machines. [default: that of spark-submit or of
    the platform's configuration, or local[*]]
--remote sc://HOST:PORT
    Server of Spark Connect, instead of a master. [default: SPARK_REMOTE]
--spark-conf KEY=VALUE ...
    A setting of Spark, such as spark.executor.memory=4g. May be repeated.
--properties-file FILE
    Settings of Spark, instead of spark-defaults.conf and in its form. [default: spark-defaults.conf
    in SPARK_CONF_DIR, or in conf of SPARK_HOME]
--ship = none
    What to send to a cluster. none: nothing, flinknet is installed there. code: flinknet; the
    packages that it needs are installed there.
"""

_TYPES: Mapping[str, Any] = {
    **{"repeat_disturbed": WholeNumber(0, 10), "subpartition": WholeNumber(0)},
    **{"seed": WholeNumber(0), "runs": WholeNumber(1)},
    **{"slots": WholeNumber(1), "edge": WholeNumber(1)},
    **dict.fromkeys(("cluster", "properties_file"), click.Path(path_type=Path)),
    "start_condition": click.Choice(("all", "any")),
    "ship": click.Choice(("none", "code")),
}
"""Types of the values of shared options; all others are texts."""

_COMPLETED: Mapping[str, Any] = {
    **{each.replace("-", "_"): words(known) for each, known in WORDS.items()},
    "placement": words(config.PLACEMENTS),
    "partitioner": words(config.PARTITIONERS),
    "partition_type": words(config.PARTITION_TYPES),
    "scheduling": words(config.SCHEDULINGS),
    "arrivals": words(config.ARRIVAL_LAWS[:-1]),
    "define": flink_keys,
}
"""Completion of values in a shell."""

_LINES = re.compile(r"^(?:\[(.+)\]|(~ )?(-.*)((?:\n    .*)*))$", re.MULTILINE)
_OPTION = re.compile(
    r"(?P<names>-[\w/-]+(?:, -[\w/-]+)*)(?: \((?P<parameter>\w+)\))?"
    r"(?: (?P<metavar>(?!= |\.{3}|required)\S+))?"
    r"(?P<many> \.{3})?(?: = (?P<default>\S+))?(?P<required> required)?"
)
_DEFAULT = " [default: "

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Entry:
    """An option of a table: its line, split, and its help."""

    section: str
    is_rare: bool
    help: str
    names: str
    parameter: str | None
    metavar: str | None
    many: str | None
    default: str | None
    required: str | None

    @property
    def key(self) -> str:
        """Name of the parameter."""
        first = self.names.partition("/")[0].split(", ")[-1]
        return self.parameter or first.lstrip("-").replace("-", "_")

    def add_to(self, command: _Command, kind: Any, *, is_sweep: bool) -> _Command:
        """Add the option to a command; `kind` is the type of its values."""
        more: dict[str, Any] = {}
        if self.metavar and self.metavar[0] + self.metavar[-1] == "[]":
            more = {"is_flag": False, "flag_value": STDOUT}
        elif "/" in self.names:
            more = {"default": f"{_DEFAULT}no-" not in self.help}
        elif self.metavar is None and kind is None:
            more = {"is_flag": True}
        if self.default is not None:
            value = self.default if kind is None else kind(self.default)
            more |= {"default": value, "show_default": True}
        is_one = self.metavar == "LIST" and self.key.replace("_", "-") in NETWORK_OPTIONS
        return click.option(
            *self.names.split(", "),
            *([self.parameter] if self.parameter else []),
            cls=SectionedOption,
            section=self.section,
            is_rare=self.is_rare,
            metavar="VALUE" if is_one and not is_sweep else self.metavar,
            type=kind,
            multiple=self.many is not None,
            required=self.required is not None,
            help=self.help,
            shell_complete=_COMPLETED.get(self.key),
            **more,
        )(command)


@cache
def _shared() -> Mapping[str, _Entry]:
    return {each.names.partition("/")[0]: each for each in _entries(SHARED, {})}


def _entries(text: str, shared: Mapping[str, _Entry]) -> Iterator[_Entry]:
    section = ""
    for heading, tilde, line, more in _LINES.findall(cleandoc(text)):
        section = heading or section
        if more:
            match = _OPTION.fullmatch(line)
            assert match is not None, line
            known = shared.get(match["names"].partition("/")[0])
            own = section or (known.section if known else OTHERS)
            yield _Entry(own, bool(tilde), " ".join(more.split()), **match.groupdict())
        elif line:
            names, _, default = line.partition(_DEFAULT)
            for each in (shared[name] for name in names.split()):
                help_text = each.help.partition(_DEFAULT)[0] + _DEFAULT + default
                yield replace(
                    each,
                    section=section or each.section,
                    is_rare=bool(tilde),
                    help=help_text if default else each.help,
                )


def options(text: str, *, is_sweep: bool = False, **types: Any) -> Callable[[_Command], _Command]:
    """Add the options of a table to a command.

    Args:
        is_sweep: options for Flink's keys may be comma lists.
        types: types of values by parameter; others are those of SHARED, or texts.
    """

    def decorate(command: _Command) -> _Command:
        for each in reversed([*_entries(text, _shared())]):
            kind = types.get(each.key, _TYPES.get(each.key))
            command = each.add_to(command, kind, is_sweep=is_sweep)
        return command

    return decorate
