"""A bench in words: load, limits, doubts, the price and gain of each setting, and sentences about
checkpoints, debloating, connections and stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from flinknet import units
from flinknet.config import NetworkConfig
from flinknet.options import BUFFER_TIMEOUT, effective_flink_keys
from flinknet.results import (
    BlockingExchange,
    DebloatedGate,
    DebloatingSample,
    RunResult,
    Validity,
    Wiring,
    has_given_rate,
    state_of,
)
from flinknet.results.comparison import Configuration
from flinknet.results.figures import CPU, Figure, named, of_run, typical
from flinknet.results.trades import Range, Trade, change_of, ratio_of

from .page_parts import clauses_of, left_out
from .plain_text import sparkline
from .trade_words import USUAL_NS, link_words, load_words, runs_words, trade_sentence
from .warning_lines import alike, doubts_of_runs, merged_text

MARKS = {Validity.INVALID: "✗ ", Validity.DOUBTFUL: "! ", Validity.VALID: ""}
"""Marks of settings in a table."""

GATES_SHOWN, GATE_MARKS = 8, 32
"""Gates whose buffer debloating is shown, and marks of each plot."""

RECORDS, BUFFERS, P50, P99 = map(
    of_run, named(["throughput_records_per_s", "buffers_per_s", "latency_p50_ns", "latency_p99_ns"])
)


def measured_words(settings: Sequence[Configuration]) -> list[str]:
    first = settings[0].results[0]
    runs = max(len(each.results) for each in settings)
    count = f"{len(settings)} settings, " if len(settings) > 1 else ""
    each = " each" if runs > 1 or count else ""
    links = {link_words(each.results[0].workload) for each in settings}
    words, timeout_ns = load_words(first.workload), _timeout_ns(first)
    timeout = "" if timeout_ns is None else f"buffer timeout {units.format_duration_ns(timeout_ns)}"
    return [
        *([words] if words else []),
        count + runs_words(runs, first.workload, each),
        *([timeout] if timeout and not count else []),
        *filter(None, links if len(links) == 1 else ()),
    ]


def _timeout_ns(result: RunResult) -> int | None:
    text = result.config.get(BUFFER_TIMEOUT)
    return None if text is None else units.parse_duration_ns(text, BUFFER_TIMEOUT, allow_never=True)


def figures_of(setting: Configuration) -> str:
    return (
        f"{units.human_count(_median(setting, RECORDS))} records/s,"
        f" p50 {units.human_duration(_median(setting, P50))},"
        f" p99 {units.human_duration(_median(setting, P99))}"
    )


def first_trade(settings: Sequence[Configuration]) -> str:
    """The gain and price of the usual timeout; empty where that was not measured or is the base."""
    usual = [each for each in settings if _timeout_ns(each.results[0]) == USUAL_NS]
    base = _base_of(settings)
    if base is None or not usual or _is_equal(usual[0], base):
        return ""
    return _trade_line(usual[0], base, is_short=True)


def few_runs(settings: Sequence[Configuration]) -> list[str]:
    is_once = len(settings) > 1 and max(len(each.results) for each in settings) == 1
    return ["one run of each setting does not show how far runs differ (--runs 5)"] * is_once


def next_words(settings: Sequence[Configuration], step: str, *, has_warnings: bool) -> list[str]:
    is_disturbed = any(each.is_mostly_disturbed for each in settings)
    more = " and what to do about warnings" if has_warnings else ""
    return [
        *["repeat it on a quieter machine"] * is_disturbed,
        *([step] if step else []),
        f"--details shows all figures{more}",
    ]


def doubt_lines(settings: Sequence[Configuration], *, is_explained: bool = False) -> list[str]:
    """Doubts about these runs, the worst first, and the processes that disturbed them. The numbers
    of runs are named if these are all runs of the call."""
    results = [(setting.name, result) for setting in settings for result in setting.results]
    numbers = [number for each in settings for number in each.numbers]
    return doubts_of_runs(
        [(name, result.warnings) for name, result in results],
        [result.processors for _, result in results],
        numbers=numbers if len(numbers) == max(numbers, default=0) == len(results) else (),
        is_explained=is_explained,
    )


def state_words(settings: Sequence[Configuration]) -> list[str]:
    """The verdicts in a word each, with the settings that they are about unless it is all."""
    names: dict[str, list[str]] = {}
    for each in settings:
        if (found := each.results[-1].verdict) is not None:
            names.setdefault(state_of(found.cause), []).append(each.name)
    if len(names) < 2:
        return [f"{each}:" for each in names]
    return ["; ".join(f"{state} ({', '.join(own)})" for state, own in names.items()) + ":"]


def limit_clauses(settings: Sequence[Configuration]) -> list[str]:
    """The limits clause by clause, the first of each setting first; each with the settings that it
    is about unless it is about all."""
    split = [(each.name, clauses_of(each.results[-1].limited_by)) for each in settings]
    longest = max(len(clauses) for _, clauses in split)
    clauses = [
        (name, own[place].rstrip(";." if place == len(own) - 1 else ";"))
        for place in range(longest)
        for name, own in split
        if place < len(own)
    ]
    found = []
    for same in alike(clauses):
        names = ", ".join(name for name, _ in same)
        where = f" ({names})" if len(same) < len(settings) else ""
        text = merged_text([text for _, text in same])
        found.append(f"{text.rstrip('.')}{where}{'.' if text.endswith('.') else ';'}")
    return found


def trade_lines(settings: Sequence[Configuration], *, is_short: bool = False) -> list[str]:
    """The price and the gain of each setting of a sweep against Flink's defaults, or against the
    first setting if the defaults were not measured; in short without figures of disturbed runs."""
    base = _base_of(settings)
    if base is None:
        return []
    measured = [each for each in settings if _median(each, RECORDS) is not None]
    others = [each for each in measured if not _is_equal(each, base)]
    lines = [_trade_line(each, base, is_short=is_short) for each in others]
    if not is_short and any(" … " in line for line in lines):
        lines.append("In brackets: the smallest and the largest change in a round.")
    return lines


def _base_of(settings: Sequence[Configuration]) -> Configuration | None:
    """The setting that others are compared with; None where nothing can be compared."""
    measured = [each for each in settings if _median(each, RECORDS) is not None]
    if len(measured) < 2:
        return None
    defaults = effective_flink_keys(NetworkConfig())
    swept = {
        key
        for each in measured
        for key, value in each.results[0].config.items()
        if value != measured[0].results[0].config.get(key)
    }
    return next(
        (
            each
            for each in measured
            if all(each.results[0].config.get(key) == defaults.get(key) for key in swept)
        ),
        measured[0],
    )


def _is_equal(setting: Configuration, base: Configuration) -> bool:
    """Whether two settings differ in nothing that acts, so that any difference is chance."""
    own, other = setting.results[0], base.results[0]
    return (own.config, own.workload) == (other.config, other.workload)


def _trade_line(setting: Configuration, base: Configuration, *, is_short: bool = False) -> str:
    name, before = setting.name, base.name
    key, equals, value = name.partition("=")
    if equals and " " not in name and before.startswith(f"{key}="):
        name, before = f"{key} {value}", before.partition("=")[2]
    both = (setting, base)
    if invalid := [each.name for each in both if each.validity is Validity.INVALID]:
        return f"{name} instead of {before}: not comparable, invalid: {', '.join(invalid)}"
    rates = (_median(setting, RECORDS), _median(base, RECORDS))
    ranges = [_range_over_rounds(setting, base, each) for each in (P50, P99, CPU)]
    trade = Trade(
        None if has_given_rate(setting.results[0].workload) else ratio_of(*rates),
        change_of(_median(setting, P50), _median(base, P50)),
        change_of(_median(setting, P99), _median(base, P99)),
        ratio_of(_median(setting, BUFFERS), _median(base, BUFFERS)),
        change_of(_median(setting, CPU), _median(base, CPU)),
        None,
        *ranges,
    )
    sentence = trade_sentence(name, before, trade)
    if setting.is_mostly_disturbed or base.is_mostly_disturbed:
        if is_short:
            return f"{name} instead of {before}: not compared, other processes disturbed the runs"
        return f"disturbed by other processes, do not rely on it: {sentence}"
    return sentence + _doubtful_runs(both)


def _doubtful_runs(settings: Sequence[Configuration]) -> str:
    runs = [run for each in settings for run in each.runs]
    doubtful = [each for each in runs if each.result.validity is not Validity.VALID]
    numbers = [each.number for each in doubtful if each.number is not None]
    which = f": {units.run_numbers(numbers)}" if numbers else ""
    return f" (doubtful{which})" if doubtful else ""


def _range_over_rounds(
    setting: Configuration, base: Configuration, figure: Figure[RunResult]
) -> Range | None:
    changes = [
        change_of(figure.read(now), figure.read(before))
        for now, before in zip(setting.results, base.results, strict=False)
    ]
    known = [each for each in changes if each is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _median(setting: Configuration, figure: Figure[RunResult]) -> float | None:
    return typical(map(figure.read, setting.results))


def blocking_line(name: str, exchange: BlockingExchange) -> str:
    """The two phases of a blocking exchange in one line."""
    where = f"{name}: written" if name else "Written"
    stored = "as they are"
    if exchange.codec != "NONE" and exchange.data_bytes:
        share = exchange.stored_bytes / exchange.data_bytes
        size = units.human_bytes(exchange.stored_bytes)
        stored = f"compressed with {exchange.codec} to {size} ({share:.1%})"
    return (
        f"{where} in {units.human_duration(exchange.write_duration_ns)}"
        f" ({units.human_count(exchange.written_records_per_s)} records/s), read in"
        f" {units.human_duration(exchange.read_duration_ns)}"
        f" ({units.human_count(exchange.read_records_per_s)} records/s):"
        f" {units.human_bytes(exchange.data_bytes)} in buffers, {stored}."
    )


def debloating_lines(name: str, gates: Sequence[DebloatedGate]) -> Iterator[str]:
    """Buffer size over time, and data in flight against the target: one line for each gate of the
    named setting that was evaluated."""
    evaluated = [gate for gate in gates if gate.samples]
    where = f"{name}: buffers" if name else "Buffers"
    for gate in evaluated[:GATES_SHOWN]:
        sizes = [each.buffer_size_bytes for each in gate.samples]
        yield (
            f"{where} of {gate.name}: {sparkline(sizes, GATE_MARKS, max(sizes))}"
            f" {units.human_bytes(sizes[0])} … {units.human_bytes(sizes[-1])}; {_in_flight(gate)}"
        )
    for more in left_out(evaluated, GATES_SHOWN, "{} more gates: see debloating in the JSON."):
        yield f"{where} of {more}"


def _in_flight(gate: DebloatedGate) -> str:
    late: tuple[DebloatingSample, ...] = gate.samples[len(gate.samples) // 2 :]
    measured = [each for each in late if each.in_flight_bytes and each.throughput_bytes_per_s]
    target = f"target {units.format_duration_ns(gate.target_ns, separator=' ')}"
    if len(measured) < len(late) / 2:
        return f"nothing in flight most of the time ({target})."
    in_flight_bytes = median(each.in_flight_bytes for each in measured)
    consume_ns = median(each.time_to_consume_ns for each in measured)
    # estimates are whole milliseconds, as in Flink
    took = units.human_duration(consume_ns) if consume_ns else "less than 1 ms"
    return f"{units.human_bytes(in_flight_bytes)} in flight, consumed in {took} ({target})."


def wiring_line(wiring: Wiring) -> str:
    """How many channels are local and remote, and what the remote ones share."""
    connections = len(wiring.connections)
    over = f" over {units.counted(connections, 'connection')}" if connections else ""
    return f"Channels: {wiring.local_channels} local, {wiring.remote_channels} remote{over}."
