"""What flinknet uses of PySpark, read from its sources, and what a PySpark has, read from its own:
so a release can be checked that is not installed, in a second and without Java.

Followed are imports, and methods of sessions and tables with their keywords as far as a name, an
annotation or the method before shows what an object is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
CLASSES = {"DataFrame": "dataframe.py", "SparkSession": "session.py"}
"""The classes whose methods are checked, with their files in `pyspark/sql`."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Kinds = dict[str, str]
"""Names of variables with the class of their objects."""


@dataclass(frozen=True, order=True)
class Method:
    """A method, or an attribute, that is used; with the keywords it is given."""

    of: str
    name: str
    keywords: tuple[str, ...] = ()


def sources() -> list[Path]:
    """Of flinknet, as far as they know of PySpark."""
    files = sorted([*ROOT.glob("flinknet/**/*.py"), *ROOT.glob("pyspark_flinknet/*.py")])
    return [each for each in files if "pyspark" in each.read_text(encoding="utf-8")]


def imports_of(file: Path) -> Iterator[tuple[str, str]]:
    """Modules of PySpark with the names that are taken from them; no name for a module itself."""
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            yield from ((str(node.module), each.name) for each in node.names)
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("pyspark"))


def methods_in(file: Path, pyspark: PySpark) -> set[Method]:
    """What a file uses of sessions and tables.

    Args:
        pyspark: tells what methods return.
    """
    found: set[Method] = set()
    for node in ast.walk(_parsed(file)):
        if isinstance(node, Definition):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            kinds = {each.arg: _class_named(each.annotation) for each in arguments}
            found |= _Body({name: kind for name, kind in kinds.items() if kind}, pyspark).of(node)
    return found


class _Body:
    def __init__(self, kinds: Kinds, pyspark: PySpark) -> None:
        self._kinds = kinds
        self._pyspark = pyspark
        self._found: set[Method] = set()

    def of(self, function: Definition) -> set[Method]:
        nodes = list(ast.walk(function))
        for _ in range(2):  # what is known of a variable is known everywhere
            for node in nodes:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    kind = self._kind(node.value)
                    if kind:
                        self._kinds[node.targets[0].id] = kind
                elif isinstance(node, ast.expr):
                    self._kind(node)
        return self._found

    def _kind(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self._kinds.get(node.id, "")
        keywords: tuple[str, ...] = ()
        if isinstance(node, ast.Call):
            keywords = tuple(sorted(each.arg for each in node.keywords if each.arg))
            node = node.func
        if not isinstance(node, ast.Attribute):
            return ""
        of = self._kind(node.value)
        if not of:
            return ""
        self._found.add(Method(of, node.attr, keywords))
        returned = self._pyspark.methods(of).get(node.attr)
        return _class_named(returned.returns) if returned is not None else ""


@dataclass(frozen=True)
class PySpark:
    """A PySpark, whole or the client alone, by the directory that has `pyspark`."""

    directory: Path

    def has(self, module: str, name: str) -> bool:
        """Whether a name can be imported from a module; without a name, the module."""
        path = self.directory.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not file.exists():
            return False
        is_module = (path / name).is_dir() or (path / f"{name}.py").exists()
        return not name or is_module or name in _names_in(file)

    def methods(self, of: str) -> Mapping[str, Definition]:
        """The methods of a class by name."""
        return _methods_in(self.directory / "pyspark" / "sql" / CLASSES[of], of)

    def takes(self, used: Method) -> bool:
        """Whether a method is there, with its keywords."""
        found = self.methods(used.of).get(used.name)
        if found is None:
            return False
        own = found.args
        names = {each.arg for each in (*own.args, *own.kwonlyargs)}
        return own.kwarg is not None or names >= set(used.keywords)


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _names_in(file: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(_parsed(file)):
        if isinstance(node, Definition | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    if "*" in found:  # as functions come from functions.builtin
        for each in sorted(file.parent.glob("*.py")):
            found |= set() if each == file else _names_in(each)
    return frozenset(found)


@cache
def _methods_in(file: Path, of: str) -> Mapping[str, Definition]:
    (own,) = (
        each for each in _parsed(file).body if isinstance(each, ast.ClassDef) and each.name == of
    )
    methods = {each.name: each for each in ast.walk(own) if isinstance(each, Definition)}
    assert methods
    return methods


def _class_named(annotation: ast.expr | None) -> str:
    text = "" if annotation is None else ast.unparse(annotation).strip("'\"")
    name = text.removesuffix(" | None").rpartition(".")[2]
    return name if name in CLASSES else ""
