"""A store that speaks S3, for tests: moto in a process of its own, on loopback.

As a program it serves until it is ended, says its port, and adds a line for each request to the
file that is its argument.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUCKET = "traces"


@dataclass(frozen=True)
class ObjectStore:
    """A server with a bucket."""

    address: str
    log: Path

    @property
    def environment(self) -> dict[str, str]:
        """What leads clients to it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def client(self) -> Any:
        """Its files as Arrow has them, looked at from outside of flinknet."""
        import pyarrow.fs

        return pyarrow.fs.S3FileSystem(
            access_key="testing",
            secret_key="testing",
            region="us-east-1",
            scheme="http",
            endpoint_override=self.address,
            allow_bucket_creation=True,
        )

    def upload(self, directory: Path, key: str) -> str:
        """Copy a directory below a key; returns its path."""
        for file in filter(Path.is_file, directory.rglob("*")):
            name = file.relative_to(directory).as_posix()
            with self.client.open_output_stream(f"{BUCKET}/{key}/{name}") as stream:
                stream.write(file.read_bytes())
        return f"s3://{BUCKET}/{key}"

    def requests(self) -> list[tuple[str, str, int]]:
        """Method, path and bytes of every response until now."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [(method, path, int(size)) for method, path, size in lines]


@contextmanager
def object_store(log: Path) -> Iterator[ObjectStore]:
    """A server with an empty bucket."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, str(log)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        store = ObjectStore(f"127.0.0.1:{int(process.stdout.readline())}", log)
        store.client.create_dir(BUCKET)
        yield store
    finally:
        process.terminate()
        process.communicate()


def serve(log: Path) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    file = log.open("a", buffering=1)

    class Logging(WSGIRequestHandler):
        def log_request(self, code: object = "-", size: object = "-") -> None:
            sent = self.headers.get("Range", "")
            first, _, last = sent.removeprefix("bytes=").partition("-")
            count = int(last) - int(first) + 1 if first and last else -1
            file.write(f"{self.command} {self.path} {count}\n")

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Logging)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
