"""Releases of PySpark that are not installed have what is used of it: those in .spark/, where `make
older-spark` puts them; of Spark 4.0 and later, for 3.5 has less."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from tests.pyspark_names import ROOT, Method, PySpark, imports_of, methods_in, sources

INSTALLED = Path(pyspark.__file__).parent.parent
OTHERS = sorted(each for each in ROOT.glob(".spark/[4-9]*") if (each / "pyspark").is_dir())

OF_LATER = {
    ("pyspark.sql.streaming.datasource", "ReadAllAvailable"),
    ("pyspark.sql.streaming.datasource", "ReadMaxBytes"),
}
"""What only Spark 4.2 and later ask for."""


def used() -> tuple[set[tuple[str, str]], set[Method]]:
    """Imports and methods of all of flinknet."""
    files = sources()
    imports = {each for file in files for each in imports_of(file)}
    return imports, {each for file in files for each in methods_in(file, PySpark(INSTALLED))}


def test_what_is_used_is_found() -> None:
    imports, methods = used()
    assert ("pyspark.sql.datasource", "DataSource") in imports
    assert {(each.of, each.name) for each in methods} >= {
        ("DataFrame", "mapInArrow"),
        ("DataFrame", "sortWithinPartitions"),
        ("DataFrame", "toArrow"),
        ("SparkSession", "createDataFrame"),
        ("SparkSession", "dataSource"),
        ("SparkSession", "sparkContext"),
    }


@pytest.mark.parametrize("directory", [INSTALLED, *OTHERS], ids=str)
def test_a_pyspark_has_what_is_used(directory: Path) -> None:
    there, later = PySpark(directory), set() if directory == INSTALLED else OF_LATER
    imports, methods = used()
    assert sorted(each for each in imports - later if not there.has(*each)) == []
    assert sorted(each for each in methods if not there.takes(each)) == []


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    older = tmp_path / "pyspark" / "sql"
    older.mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text("from pyspark.sql import SQLContext\n")
    (older / "__init__.py").write_text("from pyspark.sql.dataframe import DataFrame\n")
    (older / "dataframe.py").write_text(
        "class DataFrame:\n    def sample(self, fraction): ...\n    def hint(self, **names): ...\n"
    )
    found = PySpark(tmp_path)
    assert found.has("pyspark", "SQLContext")
    assert found.has("pyspark.sql", "dataframe")
    assert not found.has("pyspark.sql", "SparkSession")
    assert not found.has("pyspark.sql.datasource", "")
    assert found.takes(Method("DataFrame", "sample", ("fraction",)))
    assert found.takes(Method("DataFrame", "hint", ("seed",)))
    assert not found.takes(Method("DataFrame", "sample", ("seed",)))
    assert not found.takes(Method("DataFrame", "toArrow"))
