"""The compiled core: when it is used, when it is not, and that it does the same."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hatchling.bridge.app import Application

import hatch_build
from flinknet import compiled_core
from hatch_build import MARK, REQUIREMENTS, CompileHook, marked_in

ROOT = Path(__file__).parent.parent

SOURCE = "core/hot.py"
MODULE = "flinknet.core.hot"
FILES = {
    name: f"{name.rpartition('.')[2]}{EXTENSION_SUFFIXES[0]}"
    for name in (MODULE, compiled_core.SHARED)
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module that was compiled; what finds it is forgotten again."""
    directory = tmp_path / "_compiled"
    directory.mkdir()
    (tmp_path / SOURCE).parent.mkdir()
    (tmp_path / SOURCE).write_text("HEAT = 1\n")
    monkeypatch.delenv(compiled_core.SWITCH, raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setitem(sys.modules, compiled_core.SHARED, ModuleType(compiled_core.SHARED))
    for file in FILES.values():
        (directory / file).touch()
    write_index(tmp_path)
    return tmp_path


def write_index(package: Path, **changes: Any) -> None:
    index = {
        "suffix": EXTENSION_SUFFIXES[0],
        "files": FILES,
        "digests": {SOURCE: compiled_core.digest_of(package / SOURCE)},
    }
    (package / "_compiled" / "modules.json").write_text(json.dumps(index | changes))


def test_a_module_that_was_compiled_is_found_before_its_source(package: Path) -> None:
    assert compiled_core.use_compiled(package) is None
    finder = sys.meta_path[0]
    assert isinstance(finder, compiled_core.CompiledFinder)
    spec = finder.find_spec(MODULE, None)
    assert spec is not None
    assert spec.origin == str(package / "_compiled" / f"hot{EXTENSION_SUFFIXES[0]}")
    assert finder.find_spec("flinknet.core.cold", None) is None


def test_it_can_be_switched_off(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled_core.SWITCH, "0")
    assert compiled_core.use_compiled(package) == "switched off by FLINKNET_COMPILED=0"


def test_machine_code_that_the_system_does_not_load_means_interpreted(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, compiled_core.SHARED)
    before = list(sys.meta_path)
    reason = compiled_core.use_compiled(package)
    assert reason is not None
    assert reason.startswith("the system does not load it: ")
    assert str(package) not in reason
    assert sys.meta_path == before


def _write(text: str) -> Callable[[Path], object]:
    return lambda package: (package / "_compiled" / "modules.json").write_text(text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda package: (package / SOURCE).unlink(), "not compiled when it was installed"),
        (
            lambda package: (package / SOURCE).write_text("HEAT = 2\n"),
            "flinknet/core/hot.py is newer than what was compiled; install flinknet again",
        ),
        (lambda package: write_index(package, suffix=".cpython-399-abacus.so"), "another Python"),
        (lambda package: (package / "_compiled" / FILES[MODULE]).unlink(), "is not complete"),
        (_write('{"reason": "there was no C compiler"}'), "there was no C compiler"),
        *((_write(text), "is damaged") for text in ("", "[]", "{}", '{"suffix"')),
        (
            lambda package: (package / "_compiled" / "modules.json").unlink(),
            "not compiled when it was installed",
        ),
    ],
)
def test_machine_code_that_does_not_fit_means_interpreted(
    package: Path, change: Callable[[Path], object], reason: str
) -> None:
    change(package)
    before = list(sys.meta_path)
    assert reason in (compiled_core.use_compiled(package) or "")
    assert sys.meta_path == before


DISTURBED_RUNS = """
import hashlib, sys
from flinknet.core.consumer import connection
from tests.simulation import Rows, run_disturbed
for seed in range(12):
    rows = Rows()
    run_disturbed(seed, rows)
    numbers = [tuple(map(int, row)) for row in rows.rows]
    print(seed, len(numbers), hashlib.sha256(repr(numbers).encode()).hexdigest())
print(connection.__file__.endswith(".py"), file=sys.stderr)
"""
"""Every event of simulated runs with faults; on stderr whether it ran interpreted."""


def test_compiled_and_interpreted_runs_are_the_same_event_for_event() -> None:
    """Skipped where this installation has no machine code to compare with."""
    compiled_run, interpreted_run = (run_python(DISTURBED_RUNS, switch) for switch in ("1", "0"))
    assert interpreted_run.stderr.strip() == "True"
    if compiled_run.stderr.strip() == "True":
        pytest.skip("flinknet was not compiled, or its sources have been edited since")
    assert compiled_run.stdout == interpreted_run.stdout
    assert len(compiled_run.stdout.splitlines()) == 12


RUNS_OF_ALL_KINDS = """
import gc
from collections import Counter
from tests.campaign.trial import failure_of
some = {"records": 8, "parallelism": 3}
for choices in (
    {}, {"partition type": 9}, {"partition type": 10}, {"partition type": 11},
    {"flow control": 7}, {"relays": 7},
    {"placement": 3}, {"checkpoints": 6, "debloating": 7}, {"end": 8}, {"end": 11},
):
    assert failure_of(1, Counter(), some | choices) is None
gc.collect()
print([each for each in gc.get_objects() if type(each).__name__ == "MemorySegment"])
"""
"""What is left of the memory of simulated TaskManagers when their runs are over."""


def test_the_memory_of_a_run_is_freed_with_it() -> None:
    assert run_python(RUNS_OF_ALL_KINDS, "1").stdout == "[]\n"


def test_no_compiled_class_declares_an_attribute_again() -> None:
    """The machine code visits such an attribute twice when garbage is collected: what only it
    refers to is never freed, and what is referred to once more is freed too early.
    """
    classes = {
        each.name: each
        for source in marked_in(ROOT)
        for each in ast.parse((ROOT / source).read_bytes()).body
        if isinstance(each, ast.ClassDef)
    }
    for each in classes.values():
        again = declared_in(each) & set().union(
            *(attributes_of(b) for b in bases_of(each, classes))
        )
        assert not again, f"{each.name} declares {again}, as a base of it does"


def test_no_compiled_comparison_assigns_a_name_that_it_has_read() -> None:
    """`x != (x := …)` compares the new value with itself in machine code: nothing ever changes."""
    for source in marked_in(ROOT):
        for node in ast.walk(ast.parse((ROOT / source).read_text())):
            if not isinstance(node, ast.Compare | ast.BinOp | ast.Call | ast.Tuple):
                continue
            names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
            for each in ast.walk(node):
                if isinstance(each, ast.NamedExpr):
                    where = each.lineno, each.col_offset
                    before = {name.id for name in names if (name.lineno, name.col_offset) < where}
                    assert each.target.id not in before, f"{source}:{each.lineno}"


def declared_in(each: ast.ClassDef) -> set[str]:
    """Attributes that the body of a class declares, without those of the class itself."""
    return {
        statement.target.id
        for statement in each.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and not ast.unparse(statement.annotation).startswith("ClassVar")
    }


def attributes_of(each: ast.ClassDef) -> set[str]:
    """All attributes that a class gives its instances."""
    assigned = {
        node.attr
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    return declared_in(each) | assigned


def bases_of(each: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The compiled ones among them, and theirs."""
    names = [ast.unparse(base).partition("[")[0] for base in each.bases]
    own = [classes[name] for name in names if name in classes]
    return own + [further for base in own for further in bases_of(base, classes)]


def run_python(code: str, switch: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {compiled_core.SWITCH: switch},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture
def hook_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CompileHook]:
    """A build hook for a project in `tmp_path` with these modules marked."""
    (tmp_path / "flinknet").mkdir()
    (tmp_path / "flinknet" / "__init__.py").touch()
    (tmp_path / "flinknet" / "hot.py").write_text(
        "def heat(number: int) -> int:\n    return number + 1\n"
    )
    monkeypatch.delenv(compiled_core.SWITCH, raising=False)
    monkeypatch.chdir(tmp_path)

    def hook(*modules: str) -> CompileHook:
        for module in modules:
            source = tmp_path / f"{module.replace('.', '/')}.py"
            source.write_text(f"{MARK}\n{source.read_text()}")
        return CompileHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel", Application())

    return hook


def built(hook: CompileHook) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a hook. Returns: the index it wrote, and what the builder gets."""
    build_data: dict[str, Any] = {"artifacts": []}
    hook.initialize("standard", build_data)
    return json.loads(Path("flinknet", "_compiled", "modules.json").read_text()), build_data


def compile_nothing(marked: list[str], work: Path) -> None:
    """In place of `hatch_build.build`: files, but no machine code."""
    suffix = EXTENSION_SUFFIXES[0]
    for name in (*(each.removesuffix(".py") for each in marked), compiled_core.SHARED):
        file = work / "built" / f"{name}{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def test_the_hook_compiles_and_the_index_says_what(hook_of: Callable[..., CompileHook]) -> None:
    index, build_data = built(hook_of("flinknet.hot"))
    if "reason" in index:
        pytest.skip(index["reason"])
    assert build_data == {
        "artifacts": ["/flinknet/_compiled/"],
        "pure_python": False,
        "infer_tag": True,
    }
    assert index["suffix"] == EXTENSION_SUFFIXES[0]
    assert index["digests"] == {"hot.py": compiled_core.digest_of(Path("flinknet/hot.py"))}
    assert set(index["files"]) == {"flinknet.hot", "flinknet__mypyc"}
    folder = Path("flinknet", "_compiled").absolute()
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "import flinknet.hot; print(flinknet.hot.heat(1), flinknet.hot.__file__)"
    )
    command = [sys.executable, "-I", "-S", "-c", code]  # no site: this flinknet is not there
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", str(folder / index["files"]["flinknet.hot"])]


def test_sources_that_constants_are_taken_from_are_in_the_index(
    hook_of: Callable[..., CompileHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hatch_build, "build", compile_nothing)
    Path("flinknet", "deep").mkdir()
    Path("flinknet", "deep", "__init__.py").write_text("from .layout import ID\n")
    Path("flinknet", "deep", "layout.py").write_text("from .far import ID\n")
    Path("flinknet", "deep", "far.py").write_text("from typing import Final\nID: Final = 1\n")
    Path("flinknet", "hot.py").write_text("import json\nfrom . import deep\nHEAT = deep.ID\n")
    index, _ = built(hook_of("flinknet.hot"))
    if "reason" in index:
        pytest.skip(index["reason"])
    assert set(index["digests"]) == {"hot.py", "deep/__init__.py", "deep/layout.py", "__init__.py"}


def test_a_source_edited_while_it_is_compiled_is_not_the_one_that_was(
    hook_of: Callable[..., CompileHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = hook_of("flinknet.hot")
    source = Path("flinknet", "hot.py").absolute()
    before = compiled_core.digest_of(source)

    def edit_and_build(marked: list[str], work: Path) -> None:
        source.write_text(source.read_text() + "# edited\n")
        compile_nothing(marked, work)

    monkeypatch.setattr(hatch_build, "build", edit_and_build)
    index, _ = built(hook)
    if "reason" in index:
        pytest.skip(index["reason"])
    assert index["digests"]["hot.py"] == before != compiled_core.digest_of(source)


def test_what_was_compiled_before_is_gone_when_it_cannot_be_compiled_any_more(
    hook_of: Callable[..., CompileHook],
) -> None:
    Path("flinknet", "_compiled", "flinknet").mkdir(parents=True)
    Path("flinknet", "_compiled", "flinknet", f"hot{EXTENSION_SUFFIXES[0]}").touch()
    Path("flinknet", "broken.py").write_text("def\n")
    built(hook_of("flinknet.broken"))
    assert [each.name for each in Path("flinknet", "_compiled").iterdir()] == ["modules.json"]


def test_where_nothing_can_be_written_it_is_installed_all_the_same(
    hook_of: Callable[..., CompileHook],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hatch_build, "build", compile_nothing)
    Path("flinknet", "_compiled").touch()  # what no folder can be made of
    build_data: dict[str, Any] = {"artifacts": []}
    hook_of("flinknet.hot").initialize("standard", build_data)
    assert build_data == {"artifacts": []}
    assert "could not be compiled" in capsys.readouterr().err


def test_the_types_of_what_compiled_modules_import_are_there_when_they_are_compiled() -> None:
    imported = {
        name
        for source in marked_in(ROOT)
        for name in re.findall(r"^(?:from|import) (\w+)", (ROOT / source).read_text(), re.M)
    }
    given = {re.split("[^a-z]", each)[0] for each in REQUIREMENTS}
    assert imported - sys.stdlib_module_names - {"flinknet"} <= given


@pytest.mark.parametrize(
    ("module", "words"),
    [("flinknet.broken", "could not be compiled"), ("flinknet.wrong", "wrong.py:3: error: ")],
)
def test_what_cannot_be_compiled_is_installed_all_the_same(
    hook_of: Callable[..., CompileHook], module: str, words: str
) -> None:
    Path("flinknet", "broken.py").write_text("def\n")
    Path("flinknet", "wrong.py").write_text("def wrong() -> int:\n    return 'text'\n")
    index, build_data = built(hook_of(module))
    assert words in index["reason"]
    assert "pure_python" not in build_data


def test_without_a_compiler_nothing_is_tried(
    hook_of: Callable[..., CompileHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    index, _ = built(hook_of("flinknet.hot"))
    assert index["reason"].startswith("there was no C compiler")


def test_it_can_be_left_out_when_installing(
    hook_of: Callable[..., CompileHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hook_of("flinknet.hot").dependencies() == list(REQUIREMENTS)
    monkeypatch.setenv(compiled_core.SWITCH, "0")
    assert hook_of("flinknet.hot").dependencies() == []
    index, _ = built(hook_of("flinknet.hot"))
    assert "FLINKNET_COMPILED=0 when it was installed" in index["reason"]


def test_where_buffers_pass_is_compiled() -> None:
    marked = marked_in(ROOT)
    for hot in ("core/producer/subpartition", "core/consumer/input_gate", "runtime/transport"):
        assert f"flinknet/{hot}.py" in marked
