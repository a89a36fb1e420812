"""Calls that are wrong: each gets one line that says what would do, and begins nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from flinknet.core.wire.ids import ResultPartitionID

from .conftest import Flinknet, RecordingRun

NO_FILE = "there is no such file or directory"
NO_TRACE = "not a flinknet trace (wrong magic number): give a run directory, or a .fnt file in one"
NO_RUN = "empty: not a run directory"
NOT_JSON = "run/manifest.json: not JSON"
A_DURATION = "is not a duration; write a number and a unit, such as 100ms, 5 s"
TWO = "execution.buffer-timeout.interval=5ms execution.buffer-timeout.interval=1ms"
NO_PORT = "cannot listen there"
NO_FILE_AT_ALL = "/dev/null: neither a directory nor a regular file"
CONSUME = "bench consume 127.0.0.1:1"
PARTITION = str(ResultPartitionID.decode(bytes(60)))
ROOT = Path(__file__).parents[2]
SHUFFLE = ROOT / "bench" / "jobs" / "shuffle.py"
SAVED = ROOT / "tests" / "capture" / "rest" / "flink-2.3.0"
HYBRID = SAVED.parent / "plans" / "hybrid.json"
FEW = " ".join(f"-D taskmanager.memory.network.{end}=1mb" for end in ("min", "max"))
LONG = ",".join(map(str, range(1, 31)))
TAP = "trace tap --listen 127.0.0.1:0 --upstream 127.0.0.1:1 --out new"

WRONG = {
    "compare-config a b": "Did you mean 'compare-configs'?",
    "bench cofnig": "Did you mean 'config'?",
    "plan empty.py": "has no function main(env)",
    "replay run": "No such command 'replay'. Did you mean 'trace replay'?",
    "run": "No such command 'run'. Did you mean 'bench run' or 'job run'?",
    "bench --no-trace --rate": "'--rate' requires an argument (see flinknet bench run --help)",
    "bench --report page.pdf": "page.pdf must end in .html",
    "bench --runs abc": "--runs: 'abc' is not a valid whole number",
    "helpme": "No such command 'helpme' (see flinknet --help)",
    "--versoin": "No such option '--versoin'. Did you mean '--version'?",
    "bench 5ms": "No such command '5ms' (see flinknet bench --help)",
    "bench --bufer-timeout 5ms": "Did you mean '--buffer-timeout'",
    "bench --rate fast": "'fast' is not a rate; write 20000/s, 20k/s, 30/min or max",
    "bench --rate 0": "'0' would never send anything",
    "bench --duration 0": "0 measures nothing; give some seconds",
    "bench --warmup lots": A_DURATION,
    "bench --records many": "'many' is not a number of 1 or more",
    "bench --record-size 0": "a record needs 8b at least",
    "bench --record-size 1kb..100b": "runs backwards; write SMALLEST..LARGEST",
    "bench --arrivals sometimes": "not one of constant, poisson, bursts",
    "bench --arrivals on-off:1s": "such as on-off:50ms:150ms",
    "bench --buffer-timeout -5": "give 0, a positive duration, or -1 for never",
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
    "bench --runs 0": "--runs: 0 is not in the range 1 or more",
    "bench --out notes.txt": "notes.txt is a file; give a directory",
    "bench --report": "Option '--report' requires an argument",
    "bench --plot curve.gif": "must end in .svg or .png",
    "bench --csv empty": "empty cannot be written",
    "bench --no-trace --metrics-port 70000": "'70000' is not a port; write 9249 or 0.0.0.0:9249",
    "bench -D nokey": "not of the form key=value",
    "bench --flink-conf missing.yaml": "give the path of Flink's config.yaml",
    "bench --flink-conf bad.yaml": "config.yaml: line 2, column 1: ",
    "bench --flink-conf empty": "empty: cannot be read (Is a directory)",
    "bench demo nothing": "NAME: 'nothing' is not one of 'head-of-line', 'back-pressure'",
    "bench demo timeout extra": "Got unexpected extra argument (extra)",
    "bench again": "Missing argument 'RUN' (see flinknet bench again --help)",
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
    "trace export junk.fnt --format word --out x": "--format: 'word' is not one of 'parquet'",
    "trace export junk.fnt --format csv": "Missing option '--out'",
    "trace replay": "Missing argument 'TRACE...'",
    "trace replay nowhere": NO_FILE,
    "trace replay empty --target nothing": "such as p99<=20ms, or backlog<=5, or",
    "trace replay empty --split 0": "not a number of 1 or more",
    "trace replay empty --channel x": "not a list of channel numbers, such as 0,3",
    "trace replay empty --remote http://x": "write sc://HOST:PORT",
    "trace replay empty --spark-conf x": "such as spark.executor.memory=4g",
    "trace replay empty --max-records 0": "not a number of 1 or more",
    "trace replay s3x://a/b": "no such storage; there are s3://",
    "trace watch empty --every 0": "0 is too short; give some seconds",
    "trace watch empty --window 2h --once": "2h is too long; at most 1h",
    "trace replay empty --out full": "--out: full is not empty; give a new directory",
    "trace import notes.txt --out new": "neither a pcap nor a pcapng file",
    "trace tap": "Missing option '--listen'",
    f"{TAP} --ring soon": A_DURATION,
    f"{TAP} --trigger p99": "give --ring, such as 60s, too",
    "compare-configs": "give two configurations or more",
    "compare-configs nowhere.yaml other.yaml": "nowhere.yaml: no such file",
    f"compare-configs {TWO} --fail-if p99": "write p99>+10% or throughput<-5%",
    f"compare-configs {TWO} --fail-if 'p98>+1%'": "'p98' is not a metric; known are throughput",
    f"compare-configs {TWO} --confidence 120": "use 50% to 99.9%, such as 95%",
    f"compare-configs {TWO} --runs 1": "--runs: 1 is not in the range 2 or more",
    "plan": "give the file of a JOB, --vertices N,N for a job without one, or --rest URL",
    "plan missing.py": "no such file",
    "plan job.py": "it has no function main(env); define one",
    "plan broken.py": "SyntaxError",
    "plan job.py --layer none": "--layer: 'none' is not one of 'stream', 'job'",
    "job": "flinknet job: give a command: run, list, status, cancel, stop, cluster",
    "job run missing.py": "give a Python file with a function main(env)",
    "job run job.py --cluster empty": "give the directory that `flinknet job cluster start`",
    "job run job.py --duration 0": "0 measures nothing",
    "job list nowhere": "there is no such directory",
    "job cluster stop empty": "empty: no cluster is running there",
    "bench again list.json": NO_TRACE,
    "bench --duration 10": "'10' has no unit; write 10s or 10ms",
    "bench --segment-size 1gb": "64mb does not hold one segment of 1gb; give more memory",
    "bench --records 5 --duration 1s": "both say where a run ends; give one of them",
    "bench --json - --csv -": "--json and --csv both want stdout; name a file for one",
    "bench --flink-conf notes.txt": "holds no keys; lines of the form `key: value` are expected",
    "trace export junk.fnt --format csv --out nowhere/x": "--out: nowhere/x cannot be written",
    "trace replay empty --edge-timeout x": "such as 1=5ms or Enrich=5ms",
    "trace replay empty --target 'p99>=20ms'": "is a bound on the wrong side; write p99<=20ms",
    "trace replay empty --target 'p50<='": "and a duration, such as p99<=20ms",
    "compare-configs base buffer-timeout=5": "buffer-timeout=5: '5' has no unit; write 5ms or 5s",
    "compare-configs base x:buffer-timeout=5": "timeout=5: buffer-timeout: '5' has no unit",
    "trace replay empty --alignment often": "not aligned, unaligned or a time such as 30ms",
    "trace replay empty --rest ftp://x": "is not a URL; write http://HOST:PORT or https://HOST",
    "trace replay empty --rest http://x --rest-token-file none": "none: cannot be read",
    "trace replay empty --properties-file none": "none cannot be read (No such file or directory)",
    "trace import empty --out new": "empty: is a directory; give a pcap or pcapng file",
    f"{TAP} --rest-token-file notes.txt": "--rest-token-file needs --rest",
    f"{TAP} --rest http://x --rest-ca notes.txt": "give https://x",
    "plan --rest https://x --rest-ca notes.txt": "notes.txt holds no certificate in PEM",
    "plan --rest https://x --rest-key notes.txt": "--rest-key needs --rest-cert",
    "plan --rest-cert notes.txt --vertices 2,2": "--rest-cert needs --rest",
    f"{TAP} --tls-cert notes.txt": "--tls-cert, --tls-key and --tls-ca go together; give all three",
    f"{TAP} --ring 60s --trigger 'no_credit>half'": "'half' is not a percentage; write 95%",
    f"{TAP} --ring 60s --trigger nothing": "metrics are credit_starved, no_credit, blocked",
    f"{TAP} --duration 0": "0 is too short; give some seconds, such as 60s",
    "trace tap --listen 127.0.0.1:7-9 --upstream 127.0.0.1:1 --out new": "each port to listen on",
    "trace tap --listen 127.0.0.1:9-7 --upstream 127.0.0.1:1 --out new": "runs backwards; write",
    "trace tap --listen 127.0.0.1:7 --upstream 127.0.0.1:7 --out new": "is the tap's own address",
    "compare-configs base nokey": "nokey: no configuration; give base, key=value",
    "compare-configs base buffer-timeout=5ms,10ms": "has several values; a config has one of each",
    f"compare-configs {TWO} --fail-if 'p99>10ms'": "is not a percentage; write p99>+10%",
    f"compare-configs {TWO} --confidence high": "'high' is not a percentage; write 95%",
    f"compare-configs {TWO} --junit - --markdown -": "both want stdout; name a file for one",
    f"compare-configs {TWO} --markdown nowhere/c.md": "--markdown: nowhere/c.md cannot be written",
    "plan --rest nohost": "neither a URL, such as http://localhost:8081, nor a directory",
    "plan --rest empty": "make it with `flinknet plan --rest URL --rest-save DIR`",
    "plan --rest http://127.0.0.1:1 --parallelism x": "write 8, or NAME=8",
    "plan job.py --rest http://127.0.0.1:1": "--rest takes no JOB, no --vertices and no --layer",
    "plan job.py --parallelism 4": "--parallelism needs --rest",
    "plan job.py --rest-save d": "--rest-save needs --rest",
    "plan empty": "empty: not a file; give a Python file with a function main(env)",
    "job run job.py --buffer-timeout 1ms,5ms": "has several values; a job has one of each",
    "job run notes.txt": "no Python file; its name must end in .py",
    "job cancel nowhere": "give the directory that `flinknet job run … --detached` printed",
    "doctor --jsn": "No such option '--jsn'. Did you mean '--json'? (see flinknet doctor --help)",
    "doctor --json empty": "empty is there and is not JSON",
    "bench --record-size 100b..3gb": "1gb at most",
    "bench --record-size exponential:8b": "too small",
    "bench --record-size exponential:2gb": "1gb at most",
    "bench --arrivals poisson": "needs a rate",
    "bench --key-skew 1": "add --partitioner hash",
    "bench --relays 1 --relay-parallelism 2,0": "not a number of 1 or more",
    "bench --relays -1": "not a number of 0 or more",
    "bench --relays 1 --task-managers 2": "--task-managers 3 or more, or --placement spread",
    "bench --slow-consumer 0:5ms:": "INDEX:DELAY:TIME",
    "bench --json notes.txt": "is there and is not JSON",
    "trace watch empty --json s3://bucket/x": "cannot grow line by line",
    "bench --no-trace --metrics-port 300.1.1.1:0": NO_PORT,
    f"{CONSUME} --partition {PARTITION} --partition {PARTITION}": "is given twice",
    f"{CONSUME} --partition {PARTITION} --subpartition 1 --subpartition 1": "1 is given twice",
    f"{CONSUME} --partition {PARTITION} --slow-consumer 0:1ms:1s": "write 0:1ms or 0:pause",
    f"bench consume here:0 --partition {PARTITION}": "'here:0' is not an address",
    "bench produce --listen 2001:db8::5:1": "is not an address; write HOST:PORT or [IPV6]:PORT",
    "bench produce --listen a]:5": "is not an address",
    "bench demo wan --runs 3": "No such option '--runs'",
    "bench produce --segment-size 8kb,32kb": "has several values",
    "bench --checkpoint-interval 1ms": "1ms is too short; the shortest is 10ms",
    f"job run {SHUFFLE} --detached --json -": "a detached job has no result yet",
    f"job run {SHUFFLE} -- 4 5": "cannot be called with env and 2 arguments",
    "bench -D heartbeat.timeout=5s": "interval: 10s is not above 0 and below heartbeat.timeout (5s",
    f"job run {SHUFFLE} -D heartbeat.interval=1min": "1min is not above 0 and below heartbeat.ti",
    f"job run {SHUFFLE} --slots 50 {FEW} -- 100": "insufficient number of network buffers",
    f"plan {SHUFFLE} many": "ValueError: invalid literal for int()",
    f"plan {SHUFFLE} --task-managers 1": "needs 4 slots; available: 1 (1 Task",
    f"plan {SHUFFLE} -D parallelism.default=0": "parallelism.default: 0 is too",
    f"plan {SHUFFLE} -D pipeline.max-parallelism=0": "is not in 1 to 32768",
    f"plan {SHUFFLE} -D execution.buffer-timeout.interval=1ms,2ms": "has several values",
    f"plan {SHUFFLE} --vertices 4,4": "--vertices stands for a JOB",
    "plan --vertices 4": "4 is one vertex, which sends nothing; give the subtasks of two or more",
    "plan --vertices 4,x": "--vertices: 'x' is not a number of 1 or more",
    "plan --vertices 8,4 --parallelism 16": "--parallelism needs --rest",
    "plan --rest http://name:word@host": "no password in the URL",
    "plan --rest localhost:8081": "'localhost:8081' is not a URL; write http://localhost:8081",
    f"plan --rest {SAVED} --job-name other": "there are: exchange",
    f"plan --rest {SAVED} --parallelism map=2": "it has Source: source, sink",
    f"plan --rest {SAVED} --parallelism s=2": "several vertices match 's'",
    f"plan --rest {SAVED} --parallelism 0": "is not a number of subtasks",
    f"plan --rest {SHUFFLE}": "neither an answer of Flink's REST API about a job nor",
    f"plan --rest {HYBRID}": "hybrid shuffle: flinknet makes no partitions of type",
    "trace replay empty --buffer-timeout 0,5": "--buffer-timeout: '5' has no unit",
    "trace replay empty --consumer-speed fast": "--consumer-speed: 'fast' is not a factor",
    "trace replay empty --rate-factor 1,1e-9": "--rate-factor: 1e-09 is out of range",
    "trace replay empty --flow-control udp": "'udp' is not one of credit, tcp",
    "trace replay empty --checkpoint-interval 0s": "--checkpoint-interval: 0 is too short",
    f"trace replay empty --floating-buffers {LONG} --exclusive-buffers {LONG}": "= 900 settings is",
    "trace replay empty --target p99=20ms": "--target: 'p99=20ms' is not a target",
    "trace replay empty --to 30": "--to: '30' has no unit",
    "trace replay empty --report -": "--report: - does not mean stdout here; give the name of a",
    "trace replay empty --report nowhere/out.html": "--report: nowhere/out.html cannot be written",
    "trace replay /dev/null": NO_FILE_AT_ALL,
    f"{TAP} --upstream h:1": "1 times --listen and 2 times --upstream",
    f"{TAP} --listen h:5-7 --upstream h:8-9": "h:5-7 has 3 ports and --upstream h:8-9 2",
    f"{TAP} --listen h:7-70000 --upstream h:8-9": "write HOST:PORT",
    f"{TAP} --ring 0s": "too short",
    f"{TAP} --flink-conf absent.yaml": "no such file",
    "compare-configs base absent.toml": "no such file; it must be a TOML file with the tables",
    "compare-configs empty.yaml base": "empty.yaml: has no keys; to compare default settings",
    "compare-configs base comment.toml": "comment.toml: has no keys; to compare default settings,",
    "compare-configs base broken.toml": "cannot be read as TOML",
    "compare-configs base deep.toml": "cannot be read as TOML: nested too deeply",
    "compare-configs base endless.toml": "larger than 1 MiB",
    "compare-configs base strange.toml": "only the tables",
    "compare-configs base buffer-timeot=5ms": "did you mean buffer-timeout",
    "compare-configs base x.y=1": "Flink has no such key",
    "compare-configs base link=rtt=1ms,2ms": "2 links; give one",
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
        "broken.toml": "[network\n",
        "strange.toml": "[other]\n",
        "deep.toml": "a = " + "[" * 5000,
        "comment.toml": "# the defaults\n",
        "empty.yaml": "",
        "empty.py": "",
        "job.py": "x = 1\n",
        "broken.py": "def (\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "endless.toml").symlink_to("/dev/zero")


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_gets_one_line_that_helps_before_anything_is_begun(
    files: None, flinknet: Flinknet, run: RecordingRun, tmp_path: Path, call: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = flinknet(*shlex.split(call))
    assert WRONG[call] in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert done.exit_code == (4 if WRONG[call] in DAMAGED else 2)
    assert run.scenarios == []
    assert sorted(tmp_path.rglob("*")) == before


DAMAGED = (
    *(NO_TRACE, NO_RUN, NOT_JSON, NO_PORT, NO_FILE_AT_ALL),
    "neither a pcap nor a pcapng file",
)
"""The call is right; what it reads is not."""
