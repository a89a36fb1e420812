"""`flinknet plan`: shows the graphs of a job, layer by layer, before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.errors import ConfigError

from .commands import SectionedCommand, WholeNumber
from .files import say_warnings, show
from .option_tables import REST_FILES, options
from .plan_running import memory_sentences, show_running_plan
from .replay_options import rest_place
from .value_parsers import count, each_of, refuse

if TYPE_CHECKING:
    from flinknet.graph import ExecutionGraph, JobGraph, PhysicalPlan, Program, StreamGraph

    Layer = StreamGraph | JobGraph | ExecutionGraph | PhysicalPlan

LAYERS = ("stream", "job", "execution", "physical")
FORMATS = ("tree", "json", "svg")
PARALLELISM = "parallelism.default"
EXIT_WOULD_NOT_START = 1


_OPTIONS = f"""
[What to show]
--layer
    Show only this layer. [default: the answer; with --details and in JSON all, of --vertices the
    physical one; in pictures: physical]
--format (form) = tree
    Text, JSON, or a picture as SVG.
--channels N
    List each channel if there are at most N. [default: 64]
--details
[What to plan]
--vertices N,N,…
    Instead of JOB: the number of subtasks of each vertex in a chain of vertices, the source first.
    All subtasks of a vertex send to all of the next.
[Where it would run]
--task-managers N
    Number of TaskManagers. [default: as many as the job needs]
--slots N
    Slots of each TaskManager. [default: taskmanager.numberOfTaskSlots; with --rest: as now]
-D (define) KEY=VALUE ...
    Any of Flink's keys, such as parallelism.default=4; overrides --flink-conf. The program's own
    settings override both. May be repeated.
--start-condition
--flink-conf FILE
    Read Flink's keys from a config.yaml or a FlinkDeployment.
[A job that runs]
--rest URL|DIR|FILE
    Instead of JOB: the job that runs on a cluster, as Flink's REST API describes it, and the
    network memory that it takes. FILE: an answer to /jobs/ID, or a plan of Flink's web page or
    `flink info`.
{REST_FILES}
--rest-save DIR
    Save the API's answers in DIR; --rest DIR then needs no cluster.
--job-name NAME|ID
    Which job, if --rest has several.
--parallelism N|VERTEX=N,…
    With --rest: the network memory at another parallelism; N applies to all vertices but those with
    one subtask and those that cannot have as many. A part of a vertex's name is enough.
    TaskManagers are added or left out as the job then needs.
"""


@click.command(cls=SectionedCommand)
@click.argument("job", type=click.Path(path_type=Path), required=False)
@click.argument("arguments", nargs=-1)
@options(
    _OPTIONS,
    layer=click.Choice(LAYERS),
    form=click.Choice(FORMATS),
    task_managers=WholeNumber(1),
    channels=WholeNumber(0),
)
def plan(job: Path | None, arguments: tuple[str, ...], **values: Any) -> int:
    """Show what the program in the file JOB becomes: its operators (StreamGraph), what is submitted
    (JobGraph), its parallel form (ExecutionGraph), and what would run where (slots, channels, TCP
    connections, buffers).

    \b
    flinknet plan bench/jobs/shuffle.py --task-managers 2 --slots 2
        whether it would start, and with --details all four graphs, as text
    flinknet plan job.py --layer physical --format svg > plan.svg
        a picture of what would run where
    flinknet plan --vertices 4,16,16 --slots 4
        the network memory of a job that is not written yet
    flinknet plan job.py -D taskmanager.memory.network.max=1mb \\
        -D taskmanager.memory.network.min=1mb
        whether the job would start with this network memory
    flinknet plan --rest http://localhost:8081 --parallelism 16
        the network memory that the jobs of a running Flink would need

    With --rest, the network memory is what TaskManagers report, unless -D or --flink-conf has a
    taskmanager.memory key. Buffers in use are those of all jobs. The result is text or JSON,
    without layers.

    JOB defines main(env), which gets ARGUMENTS after the environment. Nothing runs. The exit code
    is 1 if the job would not start with the available network memory.
    """
    from flinknet.graph import PhysicalPlan, execution_graph_of, job_graph_of, physical_plan_of
    from flinknet.graph.job_config import START_CONDITION
    from flinknet.graph.placements import placement_bounds, shortage_in
    from flinknet.graph.tree import CHANNELS_MAX

    layer, form, vertices = values["layer"], values["form"], values["vertices"]
    rest, flink_conf, channels = values["rest"], values["flink_conf"], values["channels"]
    settings = _settings(values)
    if rest is None and job is not None and job.suffix == ".json":
        rest, job = str(job), None
        values["rest"] = rest
    if rest is not None:
        if job is not None or vertices is not None or layer is not None:
            raise ConfigError("--rest takes no JOB, no --vertices and no --layer; leave that out")
        if form not in ("tree", "json"):
            raise ConfigError("--rest prints text or JSON: give --format tree or json")
        would_start = show_running_plan(values, settings)
        return 0 if would_start else EXIT_WOULD_NOT_START
    if job is None and vertices is None:
        raise ConfigError(
            "give the file of a JOB, --vertices N,N for a job without one, or --rest URL for a"
            " running job"
        )
    rest_place(values)
    refuse(values, ("rest_save", "job_name", "parallelism"), " needs --rest")
    if values["start_condition"] is not None:
        settings[START_CONDITION] = values["start_condition"]
    program = _program(job, arguments, vertices, settings)
    say_warnings(program.warnings)
    stream_graph = program.stream_graph
    if job is not None:
        warn_of_idle_parallelism(stream_graph, settings)
    has_all = job is not None and form in ("tree", "json")
    wanted = (layer,) if layer else LAYERS if has_all else ("physical",)
    if flink_conf is not None and "physical" in wanted:
        try:
            flink.check_total_of(Path(flink_conf), settings)
        except ConfigError as error:
            raise ConfigError(f"{flink_conf} {error}") from None
    layers: dict[str, Layer] = {"stream": stream_graph}
    if set(wanted) - {"stream"}:
        job_graph = layers["job"] = job_graph_of(stream_graph)
        if set(wanted) & {"execution", "physical"}:
            graph = layers["execution"] = execution_graph_of(job_graph)
            if "physical" in wanted:
                layers["physical"] = physical_plan_of(
                    graph,
                    task_managers=values["task_managers"],
                    slots_per_task_manager=values["slots"],
                )
    shown = {name: layers[name] for name in wanted}
    physical = layers.get("physical")
    is_answer = form == "tree" and layer is None
    has_details = values["details"] or channels is not None
    if is_answer and isinstance(physical, PhysicalPlan):
        what = "the four graphs, slots" if has_all else "slots"
        step = f"--details shows {what}, channels and sockets"
        _print_answer(physical, "--format svg draws it" if has_details else step)
    if not is_answer or has_details:
        click.echo("\n" * is_answer, nl=False)
        click.echo(_rendered(shown, form, CHANNELS_MAX if channels is None else channels))
    if isinstance(physical, PhysicalPlan) and shortage_in(physical, placement_bounds(physical)):
        return EXIT_WOULD_NOT_START
    return 0


def _print_answer(plan: PhysicalPlan, step: str) -> None:
    """Print whether the job would start, and where its channels are."""
    from flinknet.report.page_parts import Row, Sentence, Table, View, heads
    from flinknet.units import counted

    total, local = plan.channels_total, plan.local_channels
    planned = [
        f"{plan.graph.job.name}: {counted(plan.tasks_total, 'task')}",
        f"{counted(total, 'channel')} ({local:,} local)",
        counted(plan.connections_total, "TCP connection"),
        f"{counted(plan.task_managers, 'TaskManager')} with"
        f" {counted(plan.slots_per_task_manager, 'slot')} each",
        *([f"{plan.stages} stages, one after the other"] if plan.stages > 1 else []),
    ]
    rows = [Row([each.name, str(each.parallelism)]) for each in plan.vertices]
    answer = [Sentence("planned", planned, "; "), *memory_sentences(plan, step)]
    show(View(answer, [Table(heads("vertex", "subtasks"), rows)]))


def warn_of_idle_parallelism(graph: StreamGraph, settings: Mapping[str, str]) -> None:
    """Warn if the given parallelism.default has no effect, because the program sets its own."""
    given = settings.get(PARALLELISM)
    set_by_program = sorted({node.parallelism for node in graph.nodes.values()})
    if given is not None and not any(str(each) == given.strip() for each in set_by_program):
        values = ", ".join(map(str, set_by_program))
        click.echo(
            f"flinknet: {PARALLELISM}={given} changes nothing: the program sets its own ({values});"
            " change it there, or take it as an argument",
            err=True,
        )


def _program(
    job: Path | None, arguments: Sequence[str], vertices: str | None, settings: Mapping[str, str]
) -> Program:
    from flinknet.graph import load_program, vertex_row

    if vertices is not None:
        if job is not None:
            raise ConfigError("--vertices stands for a JOB; give one of them")
        subtasks = each_of(count)(vertices, "--vertices")
        if len(subtasks) < 2:
            raise ConfigError(
                f"--vertices: {vertices} is one vertex, which sends nothing; give the subtasks of"
                " two or more, such as 4,16,16"
            )
        return vertex_row(subtasks, settings)
    assert job is not None
    with redirect_stdout(sys.stderr):  # keep the program's output apart from the plan
        return load_program(job, settings, arguments)


def _settings(values: Mapping[str, Any]) -> dict[str, str]:
    from flinknet.graph.job_config import RELEASE

    conf: dict[str, str] = {}
    own: dict[str, str] = {}
    if values["flink_conf"] is not None:
        path = Path(values["flink_conf"])
        conf, warnings = flink.read_flink_conf(path)
        own[RELEASE] = flink.release_of(path)
        say_warnings(warnings)
    defined = dict(flink.parse_assignment(text) for text in values["define"])
    say_warnings(flink.deprecated_keys(defined))
    settings = flink.merge(conf, defined)
    if swept := flink.swept_keys(settings):
        raise ConfigError(f"{swept[0]} has several values; a plan has one of each")
    return settings | own


def _rendered(layers: Mapping[str, Layer], form: str, channels_max: int) -> str:
    if form == "json":
        from flinknet.graph import documents
        from flinknet.report.export import dump

        documented = {
            name: getattr(documents, f"{name}_document")(layer) for name, layer in layers.items()
        }
        return dump({"schema_version": documents.SCHEMA_VERSION, **documented}).rstrip("\n")
    if form == "tree":
        from flinknet.graph import tree

        more = {"physical": {"channels_max": channels_max}}
        texts = (
            getattr(tree, f"{name}_tree")(layer, **more.get(name, {}))
            for name, layer in layers.items()
        )
        return "\n\n".join(texts)
    from flinknet.graph import picture

    ((name, layer),) = layers.items()
    drawn = getattr(picture, f"{name}_picture")(layer)
    return picture.svg_of(drawn)
