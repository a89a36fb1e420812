"""What replay of a tapped trace says about other buffer timeouts, against the job run at them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from bench.flink.exchange import Exchange, Outcome
from bench.flink.options import tell, timeout_name
from bench.flink.tap import flinknet
from bench.flink.tapped_job import Bench
from bench.measure import print_table
from flinknet.units import human_count


def predict(
    bench: Bench,
    exchange: Exchange,
    timeouts_ms: Sequence[int],
    rates_per_s: Sequence[float],
    rounds: int,
) -> dict[str, Any]:
    """At each rate: tap one run, predict all timeouts from its trace, then measure them so many
    times, on a cluster each."""
    cells = []
    for rate_per_s in rates_per_s:
        recorded = replace(exchange, rate_per_s=rate_per_s / exchange.producers)
        tell(f"{human_count(rate_per_s)}/s: recording")
        tapped = bench.tapped(recorded, with_metrics=False)
        file = bench.directory("replay") / "replay.json"
        asked = ",".join("-1" if each < 0 else f"{each}ms" for each in timeouts_ms)
        tell("  replay")
        flinknet(
            *("trace", "replay", str(tapped.run), "--buffer-timeout", asked),
            *("--json", str(file)),
        )
        predicted = json.loads(file.read_text())["trade_offs"]
        tell("  measuring")
        others = [replace(recorded, buffer_timeout_ms=each) for each in timeouts_ms]
        measured = [bench.direct(*others) for _ in range(rounds)]
        cells += [
            cell(rate_per_s, timeout, guess, [outcomes[at] for outcomes in measured])
            for at, (timeout, guess) in enumerate(zip(timeouts_ms, predicted, strict=True))
        ]
    return {
        "exchange": asdict(exchange),
        "recorded_timeout_ms": exchange.buffer_timeout_ms,
        "cells": cells,
        "summary": summary(cells),
    }


def cell(
    rate_per_s: float, timeout_ms: int, guess: Mapping[str, Any], measured: Sequence[Outcome]
) -> dict[str, Any]:
    """Predicted against the median of what was measured: for p50 and p99 value, interval, error."""
    found: dict[str, Any] = {"rate_per_s": rate_per_s, "timeout_ms": timeout_ms}
    for name in ("p50", "p99"):
        known = [ns for each in measured if (ns := getattr(each.latency, name)) is not None]
        truth = median(known) if known else None
        value = guess["latency_ns"][name]
        low, high = interval(guess, name)
        found[name] = {
            "predicted_ns": value,
            "low_ns": low,
            "high_ns": high,
            "measured_ns": truth,
            "error": None if value is None or not truth else value / truth - 1,
            "is_covered": None if low is None or truth is None else low <= truth <= high,
        }
    return found


def interval(guess: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    """The bounds that replay gives where the trace does not tell when records were emitted."""
    low, high = (guess.get(f"latency_{end}_ns") or {} for end in ("low", "high"))
    return low.get(name), high.get(name)


def summary(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median of the absolute errors, and how many intervals hold the truth."""
    figures = [each[name] for each in cells for name in ("p50", "p99")]
    errors = [abs(each["error"]) for each in figures if each["error"] is not None]
    covered = [each["is_covered"] for each in figures if each["is_covered"] is not None]
    return {
        "median_error": median(errors) if errors else None,
        "intervals": len(covered),
        "intervals_that_hold": sum(covered),
    }


def print_predictions(document: Mapping[str, Any]) -> None:
    """Predicted (interval) against measured."""
    rows = []
    for each in document["cells"]:
        row = [f"{human_count(each['rate_per_s'])}/s, {timeout_name(each['timeout_ms'])}"]
        for name in ("p50", "p99"):
            figure = each[name]
            bounds = (
                ""
                if figure["low_ns"] is None
                else f" [{figure['low_ns'] / 1e6:.3g}, {figure['high_ns'] / 1e6:.3g}]"
            )
            row += [
                "-"
                if figure["predicted_ns"] is None
                else f"{figure['predicted_ns'] / 1e6:.3g}" + bounds,
                "-" if figure["measured_ns"] is None else f"{figure['measured_ns'] / 1e6:.3g}",
                "-" if figure["error"] is None else f"{figure['error']:+.0%}",
            ]
        rows.append(row)
    print_table(("rate, timeout", "p50 ms", "measured", "", "p99 ms", "measured", ""), rows)
    found = document["summary"]
    print(f"\nrecorded at {document['recorded_timeout_ms']} ms")
    if found["median_error"] is not None:
        print(f"median error: {found['median_error']:.1%}")
    if found["intervals"]:
        print(f"intervals that hold: {found['intervals_that_hold']} of {found['intervals']}")
