"""Build hook: compiles the hot path with mypyc when flinknet is installed.

A machine without a C compiler, or where anything else goes wrong, gets flinknet as Python; then
`flinknet doctor` tells why. FLINKNET_COMPILED=0 leaves it out on purpose. Who takes what is written
here is flinknet/compiled_core.py. Compiled is what has MARK as its first line: where buffers pass,
but for enums, protocols and dataclasses, which mypyc does not make faster.
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
DIRECTORY = Path("flinknet", "_compiled")
INDEX = "modules.json"

digest_of = runpy.run_path(str(Path(__file__).parent / "flinknet/compiled_core.py"))["digest_of"]


class CompileHook(BuildHookInterface):
    """Puts the machine code into `flinknet/_compiled/` and lets the wheel have it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a failure is noted, and the wheel has no machine code then.

        What was compiled before stays in use until all is made.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="flinknet-compile-") as made:
                index = self._compile(Path(made))
                put_in_place(Path(made), Path(self.root) / DIRECTORY, index)
        except OSError as error:
            self.app.display_warning(f"flinknet could not be compiled: {error}")
            return
        build_data["artifacts"].append(f"/{DIRECTORY}/")
        if "files" in index:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def _compile(self, out: Path) -> dict[str, Any]:
        try:
            return compile_modules(Path(self.root), out)
        except (Exception, SystemExit) as error:
            reason = f"could not be compiled: {error}".splitlines()[0]
            self.app.display_warning(f"flinknet {reason}; it runs interpreted")
            return {"reason": reason}


def put_in_place(made: Path, directory: Path, index: dict[str, Any]) -> None:
    """Replace what was compiled before; its index goes first and comes last, so that who starts
    meanwhile finds all of it or none. Raises: OSError.
    """
    (directory / INDEX).unlink(missing_ok=True)
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir()
    for file in index.get("files", {}).values():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / file, directory / file)
    (directory / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def compile_modules(root: Path, out: Path) -> dict[str, Any]:
    """Translate the marked modules and compile them. Returns: what `flinknet.compiled_core` reads.

    Raises: Exception or SystemExit of mypyc, setuptools or the compiler.
    """
    if os.environ.get("FLINKNET_COMPILED") == "0":
        return {"reason": "switched off by FLINKNET_COMPILED=0 when it was installed"}
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return {"reason": f"there was no C compiler ({compiler}) when it was installed"}
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return {"reason": "there was no Python.h (python3-dev) when it was installed"}
    marked = marked_in(root)
    # before anything is read: who edits a source now makes it another one than was compiled
    digests = {
        source.removeprefix("flinknet/"): digest_of(root / source)
        for source in sources_of(root, marked)
    }
    with chdir(root), tempfile.TemporaryDirectory(prefix="flinknet-compile-") as work:
        build(translate(marked, Path(work)), Path(work), out)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    files = sorted(str(each.relative_to(out)) for each in out.rglob(f"*{suffix}"))
    return {
        "suffix": suffix,
        "files": {name.removesuffix(suffix).replace("/", "."): name for name in files},
        "digests": digests,
    }


def marked_in(root: Path) -> list[str]:
    """The sources that are to be compiled."""
    sources = sorted((root / "flinknet").rglob("*.py"))
    marked = [each for each in sources if each.read_text("utf-8").startswith(f"{MARK}\n")]
    return [each.relative_to(root).as_posix() for each in marked]


def sources_of(root: Path, compiled: list[str]) -> list[str]:
    """Those that are compiled and those of flinknet that they import, also through a package:
    mypyc puts constants of theirs into the machine code.
    """
    found = dict.fromkeys(compiled)
    waiting = list(compiled)
    while waiting:
        for module in imported_by(root, waiting.pop()):
            path = module.replace(".", "/")
            for each in (f"{path}.py", f"{path}/__init__.py"):
                if each.startswith("flinknet/") and each not in found and (root / each).exists():
                    found[each] = None
                    if each.endswith("/__init__.py"):
                        waiting.append(each)
    return list(found)


def imported_by(root: Path, source: str) -> list[str]:
    """What a source imports: modules, and names that may be modules."""
    modules = []
    for node in ast.walk(ast.parse((root / source).read_bytes())):
        if isinstance(node, ast.ImportFrom):
            above = Path(source).parts[: -node.level] if node.level else ()
            origin = ".".join([*above, *([node.module] if node.module else [])])
            modules += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return modules


def translate(sources: list[str], work: Path) -> list[Any]:
    """Let mypyc write C. Returns: the extension modules to make of it.

    Raises: RuntimeError with the first error that mypyc finds in a source.
    """
    from mypyc.build import mypycify

    # without the project's configuration: what is merely bad style does not stand in the way
    flags = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={work}/cache"]
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            return mypycify(
                [*flags, *sources],
                opt_level="2",
                debug_level="0",
                multi_file=True,
                group_name="flinknet",
                target_dir=f"{work}/c",
            )
    except SystemExit as error:
        errors = [line for line in said.getvalue().splitlines() if ": error: " in line]
        raise RuntimeError(errors[0] if errors else str(error)) from error
    finally:
        print(said.getvalue(), end="")


def build(extensions: list[Any], work: Path, out: Path) -> None:
    """Compile and link, several C files at a time. Raises: Exception of setuptools."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class ParallelBuild(build_ext):
        def build_extensions(self) -> None:
            compile_in_turn = self.compiler.compile

            def compile_at_once(sources: list[str], **how: Any) -> list[str]:
                objects = pool.map(lambda source: compile_in_turn([source], **how), sources)
                return [each for some in objects for each in some]

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                self.compiler.compile = compile_at_once
                super().build_extensions()

    command = ParallelBuild(Distribution({"name": "flinknet", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(out), str(work / "objects")
    command.ensure_finalized()
    command.run()
