"""Paths in an object store or in HDFS, next to local ones.

`path_of` turns a user's text into a path: `s3://`, `s3a://`, `gs://`, `abfs://`, `abfss://` and
`hdfs://` become a StoragePath, everything else a pathlib.Path: also `file:` URIs, and `dbfs:` URIs,
which Databricks mounts below /Volumes and /dbfs. A StoragePath has the methods of Path that readers
of traces and writers of results use.

The platform grants access, never a path: environment variables, configuration files, the role of
the machine (see docs/clusters.md).
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from .errors import ConfigError, StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **{name: name for name in ("abfs", "abfss", "hdfs")},
}
"""Scheme of a path -> scheme of the Arrow file system that reads it."""

S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Environment variables that name a server other than Amazon's."""

SPOOLED_BYTES = 16 << 20
"""A file to upload is kept in memory up to this size, then on disk."""

REQUESTS_AT_ONCE = 16
"""Requests in parallel: each takes tens of milliseconds, whatever it reads."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_SECRETS = ("secret", "password", "token", "key")
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Size and modification time of a remote file, under the names of os.stat_result."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, slots=True, order=True)
class StoragePath:
    """A file or directory of an object store or of HDFS.

    Attributes:
        root: scheme and host, bucket or container, as the user wrote them.
        key: names below it, without a slash at either end.
        query: options of the file system, such as endpoint_override=host:9000&scheme=http.
    """

    root: str
    key: str
    query: str = ""

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.root}/{self.key}{query}"

    def __truediv__(self, name: str) -> StoragePath:
        return StoragePath(self.root, "/".join(filter(None, (self.key, name))), self.query)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.key).name

    @property
    def suffix(self) -> str:
        """The end of the name, from the last dot on."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> StoragePath:
        """The directory of the path."""
        return StoragePath(self.root, self.key.rpartition("/")[0], self.query)

    @property
    def bucket(self) -> StoragePath:
        """The bucket or container of the path; for HDFS, the root."""
        return StoragePath(self.root, "", self.query)

    def is_near(self, other: object) -> bool:
        """Whether another path is in the same bucket, with the same options."""
        return isinstance(other, StoragePath) and (self.root, self.query) == (
            other.root,
            other.query,
        )

    def absolute(self) -> StoragePath:
        """The path itself."""
        return self

    def exists(self) -> bool:
        """Whether there is a file, or files below this path."""
        return self._type() != "NotFound"

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._type() == "File"

    def is_dir(self) -> bool:
        """Whether it is a directory, or there are files below it."""
        return self._type() == "Directory"

    def stat(self) -> FileStatus:
        """Size and modification time."""
        with storage_errors(self, "read"):
            filesystem, path = self.located()
            found = filesystem.get_file_info(path)
        return FileStatus(found.size or 0, found.mtime_ns or 0)

    def iterdir(self) -> Iterator[StoragePath]:
        """The paths directly below it, ordered by name."""
        yield from (path for path, _ in self._listed())

    def glob(self, pattern: str) -> Iterator[StoragePath]:
        """The paths below it that match a pattern such as `*/manifest.json`; no `**`."""
        name, _, rest = pattern.partition("/")
        found: list[StoragePath] = [self / name]
        if _WILDCARD.search(name):
            found = [
                path
                for path, is_dir in self._listed()
                if fnmatchcase(path.name, name) and (is_dir or not rest)
            ]
        elif not rest:
            found = [path for path in found if path.exists()]
        if not rest:
            yield from found
        else:
            yield from chain(*all_at(self, lambda path: list(path.glob(rest)), found))

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Create the directory; object stores need none."""
        if self.root.startswith("hdfs:"):
            with storage_errors(self, "make"):
                filesystem, path = self.located()
                filesystem.create_dir(path, recursive=parents)

    def open(
        self, mode: str = "r", *, encoding: str | None = None, errors: str | None = None
    ) -> Any:
        """Open the file to read it from start to end: "rb" as bytes, "r" as text."""
        with storage_errors(self, "read"):
            filesystem, path = self.located()
            stream = filesystem.open_input_stream(path, buffer_size=1 << 20)
        return stream if mode == "rb" else io.TextIOWrapper(stream, encoding, errors)

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        with storage_errors(self, "read"), self.open("rb") as file:
            content: bytes = file.read()
            return content

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the whole file as text."""
        return self.read_bytes().decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write the file."""
        with self.whole_file() as file:
            file.write(text.encode(encoding))

    @contextmanager
    def whole_file(self) -> Iterator[IO[bytes]]:
        """Open a file to write, which is uploaded when the block ends without an exception.

        Raises: StorageError if the upload fails.
        """
        with tempfile.SpooledTemporaryFile(SPOOLED_BYTES) as file:
            yield file
            file.seek(0)
            with storage_errors(self, "write"):
                filesystem, path = self.located()
                with filesystem.open_output_stream(path) as stream:
                    shutil.copyfileobj(file, stream, 1 << 20)

    def check_writable(self) -> None:
        """Write an empty file next to this one, and delete it. Raises: StorageError."""
        probe = replace(self, key=f"{self.key}.{uuid4().hex}")
        probe.write_text("")
        with suppress(OSError, ValueError, NotImplementedError):  # as in storage_errors
            filesystem, path = probe.located()
            filesystem.delete_file(path)

    def located(self) -> tuple[FileSystem, str]:
        """The Arrow file system that has it, and its path there. Raises Arrow's errors."""
        filesystem, base = _file_system(self.root, self.query)
        return filesystem, f"{base}/{self.key}" if self.key else base or "/"

    def _type(self) -> str:
        with storage_errors(self, "read"):
            filesystem, path = self.located()
            name: str = filesystem.get_file_info(path).type.name
            return name

    def _listed(self) -> list[tuple[StoragePath, bool]]:
        """The paths directly below it, if any, and whether each is a directory."""
        from pyarrow.fs import FileSelector, FileType

        with storage_errors(self, "list"):
            filesystem, path = self.located()
            found = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
        listed = [(self / each.base_name, each.type == FileType.Directory) for each in found]
        return sorted(listed)


AnyPath = Path | StoragePath
"""A local path, or one in a store."""

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def path_of(text: str | Path | StoragePath) -> AnyPath:
    """Parse a path written by a user or by another process.

    Raises: ConfigError for an unknown scheme, and for a path with credentials.
    """
    if not isinstance(text, str):
        return text
    found = _URI.match(text)
    if found is None:
        return Path(text)
    scheme = found[1].lower()
    if scheme == "file":
        return Path(unquote(re.sub(r"^//[^/]*", "", text[found.end() :])))
    if scheme == "dbfs":
        below = "/" + text[len("dbfs:") :].lstrip("/")
        return Path(below if below.startswith("/Volumes/") else f"/dbfs{below}")
    if scheme not in SCHEMES and not text[found.end() :].startswith("//"):
        return Path(text)
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in (*SCHEMES, "file"))
        raise ConfigError(f"{scheme}://…: no such storage; there are {known}")
    address, _, query = text[found.end() :].partition("?")
    place, _, key = address.removeprefix("//").partition("/")
    if not address.startswith("//") or (not place and scheme != "hdfs"):
        raise ConfigError(f"{scheme}:…: it names no bucket; write {scheme}://BUCKET/PATH")
    names = [each.partition("=")[0].lower() for each in query.split("&")]
    has_password = ":" in place.rpartition("@")[0]
    if has_password or any(each in name for name in names for each in _SECRETS):
        raise ConfigError(
            f"{scheme}://…: credentials do not belong in a path; give them in the environment or in"
            " the configuration of the platform"
        )
    return StoragePath(f"{scheme}://{place}", "/".join(filter(None, key.split("/"))), query)


def matching(path: AnyPath) -> list[AnyPath]:
    """The path if it is there, or what matches it by name if it is a pattern such as
    s3://bucket/taps-*: in a store no shell does that. Raises: StorageError.
    """
    if path.exists():
        return [path]
    names = path.parts if isinstance(path, Path) else path.key.split("/")
    plain = next((i for i, name in enumerate(names) if _WILDCARD.search(name)), None)
    if plain is None:
        return []
    pattern = "/".join(names[plain:])
    if isinstance(path, Path):
        return [*sorted(Path(*names[:plain]).glob(pattern))]
    return [*replace(path, key="/".join(names[:plain])).glob(pattern)]


def name_below(path: AnyPath, directory: AnyPath) -> str:
    """A path relative to a directory above it; any other path in full."""
    if isinstance(path, StoragePath) and path.is_near(directory):
        above = directory.key + "/" if isinstance(directory, StoragePath) and directory.key else ""
        return path.key.removeprefix(above)
    if isinstance(path, Path) and directory in path.parents:
        return str(path.relative_to(str(directory)))
    return str(path)


def files_among(paths: Sequence[AnyPath]) -> list[AnyPath]:
    """The paths that are files. Raises: StorageError."""
    if not paths:
        return []
    is_file = all_at(paths[0], lambda path: path.is_file(), paths)
    return [path for path, is_there in zip(paths, is_file, strict=True) if is_there]


def all_at(
    place: AnyPath, question: Callable[[_Item], _Answer], items: Sequence[_Item]
) -> list[_Answer]:
    """Call a function for each item, where each call reads files at a place: one after the other on
    this machine, several in parallel in a store. Returns: the results in order.
    """
    if len(items) < 2 or isinstance(place, Path):
        return [question(each) for each in items]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(question, items))


@lru_cache
def _file_system(root: str, query: str) -> tuple[FileSystem, str]:
    """The Arrow file system, and the path of the root in it. Raises Arrow's errors."""
    from pyarrow.fs import FileSystem

    scheme, _, host = root.partition("://")
    if SCHEMES[scheme] == "s3" and "region=" not in query and (region := _region(query)):
        query = f"{query}&region={region}" if query else f"region={region}"
    uri = f"{SCHEMES[scheme]}://{host}/" + (f"?{query}" if query else "")
    filesystem, base = FileSystem.from_uri(uri)
    return filesystem, base.rstrip("/")


def _region(query: str) -> str | None:
    """The region of a bucket, if known without a request; a custom server accepts any."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    is_own = "endpoint_override=" in query or any(os.environ.get(each) for each in S3_ENDPOINTS)
    return "us-east-1" if is_own else None


@contextmanager
def storage_errors(path: StoragePath, what: str) -> Iterator[None]:
    """Convert the errors of a file system to one line. Raises: StorageError, or FileNotFoundError
    as for local files.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    except (OSError, ValueError, NotImplementedError) as error:  # Arrow's errors are of these
        why = " ".join(str(error).split())
        raise StorageError(f"{path}: cannot {what} it ({why})") from error
