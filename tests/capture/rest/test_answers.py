"""Flink's REST API over HTTP, and what comes instead of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from flinknet.capture.rest.answers import HttpAnswers, SavedAnswers, answers_at, base_url
from flinknet.errors import ConfigError, RemoteTransportError

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that answers everything alike, and keeps what it was asked."""
    servers: list[HTTPServer] = []

    def start(
        body: bytes, status: int = 200, asked: list[Any] | None = None, **headers: str
    ) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if asked is not None:
                    asked.append((self.path, self.headers.get("Authorization")))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for each in servers:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("http://host:8081", "http://host:8081"),
        (" https://host/ ", "https://host"),
        ("http://host:8081/#/job/running/0123", "http://host:8081"),
        ("https://gateway/clusters/one/", "https://gateway/clusters/one"),
        ("http://[::1]:8081", "http://[::1]:8081"),
    ],
)
def test_the_address_of_the_web_interface_does(text: str, base: str) -> None:
    assert base_url(text) == base


@pytest.mark.parametrize(
    "text", ["host:8081", "file:///etc/passwd", "http://", "http://h:99999", "http://a:b@h"]
)
def test_what_is_no_address_of_an_api_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--rest"):
        base_url(text)


@pytest.mark.socket
def test_answers_come_with_the_token_and_can_be_saved(serve: Serve, tmp_path: Path) -> None:
    asked: list[Any] = []
    url = serve(b'{"jobs": []}', asked=asked)
    answers = HttpAnswers(url, token="secret", save_to=tmp_path)
    assert answers.get("/jobs/overview") == {"jobs": []}
    assert answers.get("/taskmanagers/a b/metrics?get=x,y") == {"jobs": []}
    assert asked == [
        ("/jobs/overview", "Bearer secret"),
        ("/taskmanagers/a%20b/metrics?get=x,y", "Bearer secret"),
    ]
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.json")] == [
        "jobs/overview.json"
    ]
    assert SavedAnswers(tmp_path).get("/jobs/overview") == {"jobs": []}
    with pytest.raises(RemoteTransportError, match="no saved answer"):
        SavedAnswers(tmp_path).get("/taskmanagers")


@pytest.mark.socket
def test_what_is_not_flinks_api_is_said_in_one_line(serve: Serve) -> None:
    for url, text in (
        (serve(b"<html>"), "the answer is not JSON, so this is not Flink's REST API"),
        (serve(b"", 401), "access denied (401); give --rest-token-file"),
        (serve(b"", 302, Location="http://elsewhere/"), "redirected to http://elsewhere/"),
        (serve(b"", 503), "HTTP status 503"),
        ("http://127.0.0.1:9", "does not answer (Connection refused)"),
    ):
        with pytest.raises(RemoteTransportError) as caught:
            HttpAnswers(url, timeout_s=5).get("/jobs/overview")
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_in_place_of_a_directory_and_broken_files_say_what_to_give(tmp_path: Path) -> None:
    overview = tmp_path / "jobs" / "overview.json"
    overview.parent.mkdir()
    overview.write_text("{")
    with pytest.raises(ConfigError, match="is a file; give the directory made with"):
        answers_at(str(overview))
    with pytest.raises(RemoteTransportError, match=r"overview\.json is not JSON; save the answers"):
        answers_at(str(tmp_path)).get("/jobs/overview")
