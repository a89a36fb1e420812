"""Build hook: compiles the modules whose first line is MARK with mypyc when flinknet is installed.

Marked is what buffers pass through, except enums, protocols and dataclasses, which mypyc does not
make faster. Without a C compiler, or where anything else fails, flinknet runs interpreted and
`flinknet doctor` says why. `flinknet/compiled_core.py` reads what is written here.
"""

from __future__ import annotations

import ast
import io
import json
import os
import runpy
import shutil
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MARK = "# mypyc"
OPTIMIZATION = "FLINKNET_OPTIMIZATION"
"""Level of the C compiler; with 1 it takes two thirds of the time, for code that only tests run."""

REQUIREMENTS = ("mypy[mypyc]>=1.11", "numpy>=1.26,<3")  # NumPy for its types

digest_of = runpy.run_path(str(Path(__file__).parent / "flinknet/compiled_core.py"))["digest_of"]


class CompileHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What is installed for compiling, if it is going to be tried."""
        return [] if cannot_compile() else list(REQUIREMENTS)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Replace `flinknet/_compiled/`: machine code, and an index or the reason for having none.

        The index goes first and comes last: a process that starts meanwhile runs interpreted.
        """
        root, directory = Path(self.root), Path(self.root, "flinknet/_compiled")
        try:
            with tempfile.TemporaryDirectory(prefix="flinknet-compile-") as work:
                Path(work, "built").mkdir()
                try:
                    index = compile_modules(root, Path(work))
                except (Exception, SystemExit) as error:
                    index = {"reason": f"could not be compiled: {error}".splitlines()[0]}
                    self.app.display_warning(f"flinknet {index['reason']}; it runs interpreted")
                (directory / "modules.json").unlink(missing_ok=True)
                if directory.exists():
                    shutil.rmtree(directory)
                if "files" in index:
                    shutil.copytree(Path(work, "built"), directory)
                directory.mkdir(exist_ok=True)
            (directory / "modules.json").write_text(json.dumps(index, indent=1) + "\n")
        except OSError as error:
            self.app.display_warning(f"flinknet could not be compiled: {error}")
            return
        build_data["artifacts"].append("/flinknet/_compiled/")
        if "files" in index:
            build_data.update(pure_python=False, infer_tag=True)


def compile_modules(root: Path, work: Path) -> dict[str, Any]:
    """Compile into `work/built`. Returns: the index. Raises: what mypyc and setuptools raise."""
    if reason := cannot_compile():
        return {"reason": reason}
    # before mypyc reads them: a source that is edited now is newer than its machine code
    digests = {each.removeprefix("flinknet/"): digest_of(root / each) for each in sources_of(root)}
    with chdir(root):
        build(marked_in(root), work)
    suffix, built = sysconfig.get_config_var("EXT_SUFFIX"), work / "built"
    names = sorted(f"{each.relative_to(built)}" for each in built.rglob(f"*{suffix}"))
    files = {name.removesuffix(suffix).replace("/", "."): name for name in names}
    return {"suffix": suffix, "files": files, "digests": digests}


def cannot_compile() -> str | None:
    """Why compiling is not tried, or None."""
    if os.environ.get("FLINKNET_COMPILED") == "0":
        return "switched off by FLINKNET_COMPILED=0 when it was installed"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there was no C compiler ({compiler}) when it was installed"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "there was no Python.h (python3-dev) when it was installed"
    return None


def build(marked: list[str], work: Path) -> None:
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    # without the project's configuration: style does not decide what can be compiled
    flags = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={work}/cache"]
    level = os.environ.get(OPTIMIZATION, "2")
    options = {"opt_level": level, "debug_level": "0", "multi_file": True, "group_name": "flinknet"}
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            extensions = mypycify([*flags, *marked], target_dir=f"{work}/c", **options)
    except SystemExit as error:
        errors = [line for line in output.getvalue().splitlines() if ": error: " in line]
        raise RuntimeError(errors[0] if errors else str(error)) from error

    class ParallelBuild(build_ext):
        def build_extensions(self) -> None:
            compile_in_turn = self.compiler.compile
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                self.compiler.compile = lambda sources, **how: list(
                    pool.map(lambda source: compile_in_turn([source], **how)[0], sources)
                )
                super().build_extensions()

    command = ParallelBuild(Distribution({"name": "flinknet", "ext_modules": extensions}))
    command.build_lib, command.build_temp = f"{work}/built", f"{work}/objects"
    command.ensure_finalized()
    command.run()


def marked_in(root: Path) -> list[str]:
    sources = sorted((root / "flinknet").rglob("*.py"))
    marked = [each for each in sources if each.read_text("utf-8").startswith(f"{MARK}\n")]
    return [each.relative_to(root).as_posix() for each in marked]


def sources_of(root: Path) -> set[str]:
    """The marked sources and what they import of flinknet, also through a package: mypyc copies
    constants from there into the machine code.
    """
    waiting = marked_in(root)
    sources = set(waiting)
    while waiting:
        imported = imported_by(root, waiting.pop()) - sources
        sources |= imported
        waiting += [each for each in imported if each.endswith("/__init__.py")]
    return sources


def imported_by(root: Path, source: str) -> set[str]:
    files = set()
    for node in ast.walk(ast.parse((root / source).read_bytes())):
        if isinstance(node, ast.ImportFrom):
            folder = Path(*Path(source).parts[: -node.level] if node.level else ())
            module = folder / (node.module or "").replace(".", "/")
            for path in (module, *(module / alias.name for alias in node.names)):
                files |= {path.with_suffix(".py"), path / "__init__.py"}
    return {str(each) for each in files if each.parts[0] == "flinknet" and (root / each).exists()}
