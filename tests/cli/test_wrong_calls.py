"""A hundred calls that are wrong: each gets one line that says what would do."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Flinknet = Callable[..., Result]

NO_FILE = "there is no such file or directory"
NO_TRACE = "not a flinknet trace (wrong magic number): give a run directory, or a .fnt file in one"
NO_RUN = "empty: not a run directory"
NOT_JSON = "run/manifest.json: not JSON"
A_DURATION = "is not a duration; write a number and a unit, such as 100ms, 5 s"
TWO = "execution.buffer-timeout.interval=5ms execution.buffer-timeout.interval=1ms"
TAP = "trace tap --listen 127.0.0.1:0 --upstream 127.0.0.1:1 --out new"

WRONG = {
    "benchh": "No such command 'benchh'. Did you mean 'bench'?",
    "replay run": "No such command 'replay'. Did you mean 'trace replay'?",
    "run": "No such command 'run'. Did you mean 'bench run' or 'job run'?",
    "bench --no-trace --rate": "'--rate' requires an argument (see flinknet bench run --help)",
    "bench --report page.pdf": "page.pdf must end in .html",
    "helpme": "No such command 'helpme' (see flinknet --help)",
    "--versoin": "No such option '--versoin'. Did you mean '--version'?",
    "bench 5ms": "No such command '5ms' (see flinknet bench --help)",
    "bench --bufer-timeout 5ms": "Did you mean '--buffer-timeout'",
    "bench --rate fast": "'fast' is not a rate; write 20000/s, 20k/s, 30/min or max",
    "bench --rate -5": "'-5' is not a rate",
    "bench --rate 0": "'0' would never send anything",
    "bench --duration 0": "0 measures nothing; give some seconds",
    "bench --duration -3s": "'-3s' is negative",
    "bench --duration 3x": "'x' is not a unit of time; use ns, us, ms, s",
    "bench --warmup lots": A_DURATION,
    "bench --records many": "'many' is not a number of 1 or more",
    "bench --record-size 0": "a record needs 8b at least",
    "bench --record-size 5apples": "'apples' is not a unit of size; use b, kb",
    "bench --record-size 1kb..100b": "runs backwards; write SMALLEST..LARGEST",
    "bench --arrivals sometimes": "not one of constant, poisson, bursts",
    "bench --arrivals on-off:1s": "such as on-off:50ms:150ms",
    "bench --buffer-timeout soon": A_DURATION,
    "bench --buffer-timeout 5ms,,10ms": "has an empty value",
    "bench --buffer-timeout -5": "give 0, a positive duration, or -1 for never",
    "bench --exclusive-buffers two": "'two' is not an integer",
    "bench --exclusive-buffers 0 --floating-buffers 0": "needs at least 1 floating buffer",
    "bench --segment-size 1": "write 4kb, 8kb, 16kb, 32kb",
    "bench --checkpoint-interval never": A_DURATION,
    "bench --producers 0": "'0' is not a number of 1 or more",
    "bench --partitioner random": "not one of rebalance, rescale",
    "bench --partitioner forward --producers 2 --consumers 3": "make them equal",
    "bench --key-skew -1 --partitioner hash": "'-1' is not a number from 0 to 100",
    "bench --relays 1 --relay-parallelism 1,2": "2 values for 1 relay; give one for all",
    "bench --relay-delay 1ms": "there is no relay; give --relays 1 or more",
    "bench --placement everywhere": "not one of split, spread",
    "bench --flow-control none": "not one of credit, tcp",
    "bench --partition-type lazy": "not one of pipelined",
    "bench --scheduling later": "not one of all-at-once",
    "bench --slow-consumer 9:1ms": "there is no consumer 9",
    "bench --slow-consumer 0": "write 0:5ms, 0:pause or 0:5ms:10s",
    "bench --runs 0": "--runs: 0 is out of range: give 1 or more",
    "bench --seed x": "--seed: 'x' is not a whole number; give 0 or more",
    "bench --out notes.txt": "notes.txt is a file; give a directory",
    "bench --report": "Option '--report' requires an argument",
    "bench --report nowhere/page.html": "give a file in a directory that can be written to",
    "bench --plot curve.gif": "must end in .svg or .png",
    "bench --csv empty": "empty cannot be written",
    "bench --histogram h.txt": "ends in neither .hlog (HdrHistogram) nor .csv",
    "bench --metrics-port 70000": "'70000' is not a port; write 9249 or 0.0.0.0:9249",
    "bench -D nokey": "not of the form key=value",
    "bench -D execution.buffer-timeout.interval=x": A_DURATION,
    "bench -D taskmanager.memory.segment-size=lots": "is not a size",
    "bench --flink-conf missing.yaml": "give the path of Flink's config.yaml",
    "bench --flink-conf bad.yaml": "config.yaml: line 2, column 1: ",
    "bench --flink-conf empty": "empty: cannot be read (Is a directory)",
    "bench demo nothing": "NAME: 'nothing' is not one of 'head-of-line', 'back-pressure'",
    "bench demo timeout extra": "Got unexpected extra argument (extra)",
    "bench again": "Missing argument 'RUN' (see flinknet bench again --help)",
    "bench again nowhere": NO_FILE,
    "bench again junk.fnt": NO_TRACE,
    "bench consume host": "a consumer needs --partition",
    "bench consume host:99 --partition x": "'x' is not a result partition; write it as",
    "bench produce --listen nowhere": "'nowhere' is not an address; write HOST:PORT or [IPV6]:PORT",
    "trace": "flinknet trace: give a command: replay, info, verify, export, sniff",
    "trace nothing": "No such command 'nothing' (see flinknet trace --help)",
    "trace info": "Missing argument 'RUN...'",
    "trace info empty": NO_RUN,
    "trace info run": NOT_JSON,
    "trace verify notes.txt": NO_TRACE,
    "trace export nowhere --format csv --out x.csv": NO_FILE,
    "trace export junk.fnt --format word --out x": "--format: 'word' is not one of 'parquet'",
    "trace export junk.fnt --format csv": "Missing option '--out'",
    "trace replay": "Missing argument 'TRACE...'",
    "trace replay nowhere": NO_FILE,
    "trace replay empty --buffer-timeout soon": A_DURATION,
    "trace replay empty --floating-buffers x": "'x' is not an integer",
    "trace replay empty --target nothing": "such as p99<=20ms, or backlog<=5, or",
    "trace replay empty --split 0": "not a number of 1 or more, and not auto",
    "trace replay empty --channel x": "not a list of channel numbers, such as 0,3",
    "trace replay empty --from later": A_DURATION,
    "trace replay empty --remote http://x": "write sc://HOST:PORT",
    "trace replay empty --spark-conf x": "such as spark.executor.memory=4g",
    "trace replay empty --max-records 0": "not a number of 1 or more, and not all",
    "trace replay empty --consumer-speed 0": "0.0 is out of range: use 0.001 to 1000",
    "trace replay s3x://a/b": "no such storage; there are s3://",
    "trace watch empty --every 0": "0 is too short; give some seconds",
    "trace watch empty --window 2h --once": "2h is too long; at most 1h",
    "trace convert empty --out full": "full is not empty; traces are never overwritten",
    "trace convert empty --out t --buckets 0": "--buckets: 0 is out of range: give 1 to 10000",
    "trace import notes.txt --out new": "neither a pcap nor a pcapng file",
    "trace import nowhere.pcap": NO_FILE,
    "trace synth --out full": "traces are never overwritten",
    "trace synth --out new --events x": "such as 10M or 1G",
    "trace synth --out new --skew -1": "--skew: -1.0 is not in the range 0<=x<=10",
    "trace tap": "Missing option '--listen'",
    "trace tap --listen x --upstream 127.0.0.1:1 --out new": "'x' is not an address; write",
    f"{TAP} --flink-version 3": "'3' is not known; choose from 1.20",
    f"{TAP} --ring soon": A_DURATION,
    f"{TAP} --trigger p99": "give --ring, such as 60s, too",
    f"{TAP} --rotate 5": "'5' is too small; give 64kb or more, such as 256MiB",
    "compare-configs": "give two configurations or more",
    "compare-configs nowhere.yaml other.yaml": "nowhere.yaml: no such file",
    f"compare-configs {TWO} --fail-if p99": "write p99>+10% or throughput<-5%",
    f"compare-configs {TWO} --fail-if 'p98>+1%'": "'p98' is not a metric; known are throughput",
    f"compare-configs {TWO} --confidence 120": "use 50% to 99.9%, such as 95%",
    f"compare-configs {TWO} --runs 1": "--runs: 1 is out of range: give 2 or more",
    f"compare-configs {TWO} --history notes.txt": "notes.txt is not a directory",
    "compare-configs buffer-timeout=5ms --baseline list.json": "not a result of compare-configs",
    "plan": "give the file of a JOB, --vertices N,N for a job without one, or --rest URL",
    "plan missing.py": "no such file",
    "plan job.py": "it has no function main(env); define one",
    "plan broken.py": "SyntaxError",
    "plan job.py --slots 0": "--slots: 0 is out of range: give 1 or more",
    "plan job.py --layer none": "--layer: 'none' is not one of 'stream', 'job'",
    "job": "flinknet job: give a command: run, list, status, cancel, stop, cluster",
    "job run missing.py": "give a Python file with a function main(env)",
    "job run job.py --cluster empty": "start one with `flinknet job cluster start`",
    "job run job.py --duration 0": "0 measures nothing",
    "job status nowhere": "nowhere",
    "job cancel empty": "empty: no job is running there",
    "job list nowhere": "there is no such directory",
    "job cluster stop empty": "empty: no cluster is running there",
    "certificates": "Missing option '--out'",
    "certificates --out new --days 0": "--days: 0 is out of range: give 1 to 36500",
    "bench again junk.fnt --rate 5/s": "No such option '--rate' (see flinknet bench again --help)",
    "bench again list.json": NO_TRACE,
    "bench --duration 10": "'10' has no unit; write 10s or 10ms",
    "bench --segment-size 1gb": "64mb does not hold one segment of 1gb; give more memory",
    "bench --records 5 --duration 1s": "both say where a run ends; give one of them",
    "bench --json - --csv -": "--json and --csv both want stdout; name a file for one",
    "bench --live-json nowhere/x": "--live-json: nowhere/x cannot be written",
    "bench --metrics-port host:": "'host:' is not a port; write 9249 or 0.0.0.0:9249",
    "bench -D taskmanager.memory.segmentsize=8kb": "did you mean taskmanager.memory.segment-size?",
    "bench -D taskmanager.network.compression.codec=GZIP": "not one of NONE, LZ4, LZO, ZSTD",
    "bench --flink-conf notes.txt": "holds no keys; lines of the form `key: value` are expected",
    "bench demo head-of-line --rate x": "'x' is not a rate",
    "bench produce --partition x": "'x' is not a result partition; write it as Flink's logs do",
    "trace info junk.fnt --channel 1": "No such option '--channel' (see flinknet trace info",
    "trace export junk.fnt --format csv --out nowhere/x": "--out: nowhere/x cannot be written",
    "trace replay empty --edge-timeout x": "such as 1=5ms or Enrich=5ms",
    "trace replay empty --target 'p99>=20ms'": "is a bound on the wrong side; write p99<=20ms",
    "trace replay empty --target 'p99>='": "is a bound on the wrong side; write p99<=20ms",
    "trace replay empty --target 'p50<='": "'p50<=' has no limit; write p50<=20ms",
    "compare-configs base buffer-timeout=5": "buffer-timeout=5: '5' has no unit; write 5ms or 5s",
    "compare-configs base x:buffer-timeout=5": "timeout=5: buffer-timeout: '5' has no unit",
    "trace replay empty --alignment often": "not aligned, unaligned or a time such as 30ms",
    "trace replay empty --rest ftp://x": "is not a URL; write http://HOST:PORT or https://HOST",
    "trace replay empty --rest http://x --rest-token-file none": "none: cannot be read",
    "trace replay empty --out full": "full exists and is not empty; give a new directory",
    "trace replay empty --json - --csv -": "--json and --csv both want stdout",
    "trace replay empty --properties-file none": "none cannot be read (No such file or directory)",
    "trace convert empty --out t --kind CREDIT": "--kind: there is no 'CREDIT'; there are BUFFER",
    "trace convert empty --out t --channel -1": "not a list of channel numbers, such as 0,3",
    "trace import empty --out new": "empty: is a directory; give a pcap or pcapng file",
    "trace import junk.fnt --flink-version 3 --out new": "or leave it out to have it detected",
    "trace synth --out new -D a.b=c": "a.b: Flink has no such key",
    f"{TAP} --rest nohost": "'nohost' is not a URL; write http://HOST:PORT",
    f"{TAP} --rest-token-file notes.txt": "--rest-token-file needs --rest",
    f"{TAP} --rest http://x --rest-ca notes.txt": "give https://x",
    "plan --rest https://x --rest-ca notes.txt": "notes.txt holds no certificate in PEM",
    "plan --rest https://x --rest-key notes.txt": "--rest-key needs --rest-cert",
    "plan --rest-cert notes.txt --vertices 2,2": "--rest-cert needs --rest",
    f"{TAP} --tls-cert notes.txt": "--tls-cert, --tls-key and --tls-ca go together; give all three",
    f"{TAP} --ring 60s --trigger 'no_credit>half'": "'half' is not a percentage; write 95%",
    f"{TAP} --ring 60s --trigger nothing": "metrics are credit_starved, no_credit, blocked",
    f"{TAP} --duration 0": "0 is too short; give some seconds, such as 60s",
    f"{TAP} --metrics-port 99999": "'99999' is not a port",
    "trace tap --listen 127.0.0.1:7-9 --upstream 127.0.0.1:1 --out new": "each port to listen on",
    "trace tap --listen 127.0.0.1:9-7 --upstream 127.0.0.1:1 --out new": "runs backwards; write",
    "trace tap --listen 127.0.0.1:7 --upstream 127.0.0.1:7 --out new": "is the tap's own address",
    "compare-configs base nokey": "nokey: no configuration; give base, key=value",
    "compare-configs base buffer-timeout=5ms,10ms": "has several values; a config has one of each",
    "compare-configs base --baseline none.json": "--baseline: none.json: there is no such file",
    "compare-configs --baseline list.json": "give a configuration to compare with the baseline",
    f"compare-configs {TWO} --fail-if 'p99>10ms'": "is not a percentage; write p99>+10%",
    f"compare-configs {TWO} --confidence high": "'high' is not a percentage; write 95%",
    f"compare-configs {TWO} --repeat-disturbed -1": "-1 is out of range: give 0 to 10",
    f"compare-configs {TWO} --junit - --markdown -": "give one of them a file",
    f"compare-configs {TWO} --markdown nowhere/c.md": "--markdown: nowhere/c.md cannot be written",
    "plan --rest nohost": "neither a URL, such as http://localhost:8081, nor a directory",
    "plan --rest empty": "make it with `flinknet plan --rest URL --rest-save DIR`",
    "plan --rest http://127.0.0.1:1 --parallelism x": "write 8, or NAME=8",
    "plan job.py --rest http://127.0.0.1:1": "--rest takes no JOB, no --vertices and no --layer",
    "plan job.py --parallelism 4": "--parallelism needs --rest; a JOB that takes its parallelism",
    "plan job.py --rest-save d": "--rest-save needs --rest",
    "plan empty": "empty: not a file; give a Python file with a function main(env)",
    "job run job.py --report page": "page must end in .html",
    "job run job.py --buffer-timeout 1ms,5ms": "has several values; a job has one of each",
    "job run notes.txt": "no Python file; its name must end in .py",
    "job cancel nowhere": "give the directory that `flinknet job run … --detached` printed",
    "certificates --out notes.txt": "cannot be made (File exists); give another directory",
    "certificates --out new --host ''": "a name has letters, digits, dots and hyphens",
    "certificates --out new --password ''": "--password: is empty; leave it out for a random one",
    "doctor --jsn": "No such option '--jsn'. Did you mean '--json'? (see flinknet doctor --help)",
    "doctor now": "Got unexpected extra argument (now)",
    "doctor --json empty": "empty is a directory; write the name of a file",
}


@pytest.fixture
def files(tmp_path: Path) -> None:
    """What the calls name and cannot use."""
    for name in ("empty", "full", "run"):
        (tmp_path / name).mkdir()
    texts = {
        "full/x": "x",
        "run/manifest.json": '{"a": 1',
        "junk.fnt": "not a trace " * 20,
        "notes.txt": "no more than a few words, again and again " * 5,
        "bad.yaml": "a: [1\n",
        "list.json": "[]",
        "job.py": "x = 1\n",
        "broken.py": "def (\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_gets_one_line_that_helps(files: None, flinknet: Flinknet, call: str) -> None:
    done = flinknet(*shlex.split(call))
    assert WRONG[call] in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert done.exit_code == (4 if WRONG[call] in DAMAGED else 2)


DAMAGED = (NO_TRACE, NO_RUN, NOT_JSON, "neither a pcap nor a pcapng file")
"""The call is right; what it reads is not."""


def test_they_are_a_hundred_and_more() -> None:
    assert len(WRONG) >= 100
