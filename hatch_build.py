"""Build hook: compiles the hot path with mypyc when flinknet is installed.

A machine without a C compiler, or where anything else goes wrong, gets flinknet as Python; then
`flinknet doctor` tells why. FLINKNET_COMPILED=0 leaves it out on purpose. Who takes what is written
here is flinknet/compiled_core.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DIRECTORY = Path("flinknet", "_compiled")


class CompileHook(BuildHookInterface):
    """Puts the machine code into `flinknet/_compiled/` and lets the wheel have it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a failure is noted, and the wheel has no machine code then."""
        directory = Path(self.root) / DIRECTORY
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        try:
            index = compile_modules(Path(self.root), self.config["modules"], directory)
        except (Exception, SystemExit) as error:
            index = {"reason": f"could not be compiled: {error}".splitlines()[0]}
            self.app.display_warning(f"flinknet {index['reason']}; it runs interpreted")
        (directory / "modules.json").write_text(json.dumps(index, indent=1) + "\n")
        build_data["artifacts"].append(f"/{DIRECTORY}/")
        if "files" in index:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def compile_modules(root: Path, modules: list[str], out: Path) -> dict[str, Any]:
    """Translate modules and compile them. Returns: what `flinknet.compiled_core` reads.

    Raises: Exception or SystemExit of mypyc, setuptools or the compiler.
    """
    if os.environ.get("FLINKNET_COMPILED") == "0":
        return {"reason": "switched off by FLINKNET_COMPILED=0 when it was installed"}
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return {"reason": f"there was no C compiler ({compiler}) when it was installed"}
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return {"reason": "there was no Python.h (python3-dev) when it was installed"}

    from mypyc.build import mypycify

    os.chdir(root)
    sources = [f"{module.replace('.', '/')}.py" for module in modules]
    with tempfile.TemporaryDirectory(prefix="flinknet-compile-") as work:
        flags = ["--ignore-missing-imports", f"--cache-dir={work}/cache"]
        extensions = mypycify(
            [*flags, *sources],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            group_name="flinknet",
            target_dir=f"{work}/c",
        )
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for extension in extensions:
                link(
                    extension.name,
                    list(pool.map(partial(compile_c, extension), extension.sources)),
                    out,
                )
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    files = {str(each.relative_to(out)): each for each in out.rglob(f"*{suffix}")}
    return {
        "suffix": suffix,
        "files": {name.removesuffix(suffix).replace("/", "."): name for name in sorted(files)},
        "digests": {
            source.removeprefix("flinknet/"): digest_of(root / source) for source in sources
        },
    }


def compile_c(extension: Any, source: str) -> str:
    """Compile a file as distutils would, but beside others. Returns: the object file."""
    made = f"{source.removesuffix('.c')}.{extension.name}.o"
    folders = [*extension.include_dirs, sysconfig.get_paths()["include"]]
    run(
        *options("CC", "CFLAGS", "CCSHARED"),
        *extension.extra_compile_args,
        *(f"-I{each}" for each in folders),
        *("-c", source, "-o", made),
    )
    return made


def link(name: str, objects: list[str], out: Path) -> None:
    """Make the extension module of object files."""
    file = out / f"{name.replace('.', '/')}{sysconfig.get_config_var('EXT_SUFFIX')}"
    file.parent.mkdir(parents=True, exist_ok=True)
    run(*options("LDSHARED"), *objects, "-o", str(file))


def options(*names: str) -> list[str]:
    """What this Python was built with."""
    return [word for name in names for word in shlex.split(sysconfig.get_config_var(name) or "")]


def run(*command: str) -> None:
    """Run a compiler. Raises: RuntimeError with the first line that it says when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(next(iter(done.stderr.splitlines()), f"{command[0]} failed"))


def digest_of(source: Path) -> str:
    """As in flinknet.compiled_core."""
    return hashlib.blake2b(source.read_bytes(), digest_size=16).hexdigest()
