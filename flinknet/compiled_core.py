"""The compiled core: the modules of the hot path as machine code, if they were built.

When flinknet is installed and there is a C compiler, `hatch_build.py` lets mypyc translate the
modules whose first line is "# mypyc" into `flinknet/_compiled/`. Their sources are still
read, tested and shipped; the machine code replaces them at import, all or none: none if a source
has changed since it was compiled, for another Python, or with FLINKNET_COMPILED=0. Both give the
same bytes and the same results; `bench/network_throughput.py` measures the speedup.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

SWITCH = "FLINKNET_COMPILED"
SHARED = "flinknet__mypyc"
"""The library in which mypyc puts all machine code; the modules only export theirs."""

INDEX = "modules.json"
"""{"suffix": suffix of this Python's extension modules, "files": {module: file}, "digests":
{source: digest}}, or {"reason": why nothing was built}; written by `hatch_build.py`."""


class CompiledFinder(MetaPathFinder):
    """Finds the machine code of a module before its source."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self._directory = directory
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the extension module of that name, if it was compiled."""
        file = self._files.get(name)
        return None if file is None else spec_from_file_location(name, self._directory / file)


def digest_of(source: Path) -> str:
    """A digest of a source file. Raises: OSError if it cannot be read."""
    return hashlib.blake2b(source.read_bytes(), digest_size=16).hexdigest()


def use_compiled(package: Path = Path(__file__).parent) -> str | None:
    """Use the compiled modules in all imports from now on.

    Returns: None, or why the modules are interpreted.
    """
    directory = package / "_compiled"
    if os.environ.get(SWITCH) == "0":
        return f"switched off by {SWITCH}=0"
    try:
        index = json.loads((directory / INDEX).read_bytes())
        if "reason" in index:
            return str(index["reason"])
        if index["suffix"] != EXTENSION_SUFFIXES[0]:
            return "compiled for another Python; install flinknet again"
        for source, digest in index["digests"].items():
            if digest_of(package / source) != digest:
                return f"flinknet/{source} is newer than what was compiled; install flinknet again"
        if not all((directory / file).exists() for file in index["files"].values()):
            return f"flinknet/{directory.name} is not complete; install flinknet again"
    except OSError:
        return "not compiled when it was installed"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{directory / INDEX} is damaged; install flinknet again"
    finder = CompiledFinder(directory, index["files"])
    sys.meta_path.insert(0, finder)
    try:
        import_module(SHARED)
    except ImportError as error:
        sys.meta_path.remove(finder)
        reason = str(error).rpartition(": ")[2]  # without the path of the file
        return f"the system does not load it: {reason}"
    return None
