"""Flink's REST API over HTTP, what comes instead of it, and the settings that it reports."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from flinknet.capture.rest.answers import HttpAnswers, SavedAnswers, answers_at
from flinknet.capture.rest.http_client import NotUpYetError, RestClient, RestPlace, base_url
from flinknet.capture.rest.settings import Layer, ReportedSettings, Stated, checkpoint_settings
from flinknet.errors import ConfigError, RemoteTransportError
from flinknet.trace import RunManifest
from flinknet.trace.manifest import IS_ADAPTIVE
from tests.capture.rest.saved import MadeAnswers, saved, tapped
from tests.certificate_set import AUTHORITY_PEM, NODE_PEM, generate

Serve = Callable[..., str]

PASSWORD = "of the key"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that answers everything alike, and keeps what it was asked."""
    servers: list[HTTPServer] = []

    def start(
        body: bytes,
        status: int = 200,
        asked: list[Any] | None = None,
        tls: ssl.SSLContext | None = None,
        **headers: str,
    ) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if asked is not None:
                    asked.append((self.path, self.headers.get("Authorization")))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        servers.append(server)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}"

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
    answers = HttpAnswers(RestPlace(url, "secret"), save_to=tmp_path)
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
@pytest.mark.parametrize(
    ("body", "status", "headers", "credentials", "text"),
    [
        (b"<html>", 200, {}, None, "the answer is not JSON, so this is not Flink's REST API"),
        (b"[]", 401, {}, None, "access denied (401); give --rest-token-file FILE, a file with a"),
        (b"", 403, {}, "a-token", "access denied (403); what --rest-token-file holds was refused"),
        (b"", 401, {"WWW_Authenticate": 'Basic realm="ops"'}, None,
         '; WWW-Authenticate: Basic realm="ops"; give --rest-token-file FILE, a file with a'),
        (b"", 401, {"WWW_Authenticate": 'Negotiate, Basic realm="ops"'}, None, "user:password"),
        (b"", 401, {"WWW_Authenticate": "Negotiate"}, None,
         "; WWW-Authenticate: Negotiate; only Basic and Bearer are supported"),
        (b"", 401, {"WWW_Authenticate": 'Digest realm="ops", nonce="1"'}, "me:secret",
         "only Basic and Bearer are supported"),
        (b"", 302, {"Location": "http://elsewhere/"}, None, "redirected to http://elsewhere/;"),
        (b"", 503, {}, None, "HTTP status 503"),
        (b"sent to an HTTPS port", 400, {}, None, "it answers with TLS; give https://127.0.0.1:"),
        (b'[{"a":{}},' + b'{"a":{}},' * 300_000 + b"0]", 200, {}, None, "larger than any answer"),
        (b" " * (33 << 20), 200, {}, None, "the answer is longer than 32 MiB"),
    ],
)  # fmt: skip
def test_what_is_not_flinks_api_is_said_in_one_line(
    serve: Serve,
    body: bytes,
    status: int,
    headers: dict[str, str],
    credentials: str | None,
    text: str,
) -> None:
    url = serve(body, status, **headers)
    with pytest.raises(RemoteTransportError) as caught:
        HttpAnswers(RestPlace(url, credentials)).get("/jobs/overview")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, NotUpYetError) == (status == 503)


def test_nobody_at_an_address_may_answer_later() -> None:
    with pytest.raises(NotUpYetError, match=r"does not answer \(Connection refused\)"):
        RestClient(RestPlace("http://127.0.0.1:9")).get("/")


@pytest.mark.socket
def test_user_and_password_are_sent_as_basic_authentication(serve: Serve) -> None:
    asked: list[Any] = []
    HttpAnswers(RestPlace(serve(b"[]", asked=asked), "me:pass wörd")).get("/x")
    assert asked == [("/x", "Basic bWU6cGFzcyB3w7ZyZA==")]


@pytest.mark.socket
@pytest.mark.parametrize("dripped", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]"])
def test_an_answer_that_comes_byte_by_byte_is_given_up_as_a_whole(dripped: bytes) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    is_over = Event()

    def drip() -> None:
        sock, _ = listening.accept()
        with contextlib.suppress(OSError):
            sock.sendall(dripped)
            while not is_over.wait(0.01):
                sock.sendall(b" ")
        sock.close()

    Thread(target=drip, daemon=True).start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(NotUpYetError, match="no whole answer in time"):
        RestClient(RestPlace(url), timeout_s=0.2).get("/jobs/overview")
    is_over.set()
    listening.close()


def generate_plain(directory: Path, *, days: int = 365) -> Path:
    """A certificate of flink.test and 127.0.0.1, its authority, the key without its password."""
    generate(directory, PASSWORD, hosts=("flink.test",), days=days)
    key = load_pem_private_key((directory / NODE_PEM).read_bytes(), PASSWORD.encode())
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificates = (directory / NODE_PEM).read_bytes().partition(b"-----BEGIN CERTIFICATE")
    (directory / "plain.pem").write_bytes(plain + b"".join(certificates[1:]))
    return directory


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate_plain(tmp_path_factory.mktemp("tls"))


def tls_server(pem: Path, *, asks_for_certificate: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem / "plain.pem")
    context.load_verify_locations(pem / AUTHORITY_PEM)
    context.verify_mode = ssl.CERT_REQUIRED if asks_for_certificate else ssl.CERT_NONE
    return context


@pytest.mark.socket
def test_a_certificate_that_has_expired_needs_no_other_authority(
    serve: Serve, tmp_path: Path
) -> None:
    generate_plain(tmp_path, days=0)
    url = serve(b"[]", tls=tls_server(tmp_path, asks_for_certificate=False))
    with pytest.raises(RemoteTransportError, match=r"is not valid today .*has expired") as caught:
        RestClient(RestPlace(url, authority=str(tmp_path / AUTHORITY_PEM))).get("/x")
    assert "--rest-ca" not in str(caught.value)


@pytest.mark.socket
def test_https_with_an_authority_and_a_client_certificate(
    serve: Serve, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, plain = str(pem / AUTHORITY_PEM), str(pem / "plain.pem")
    url = serve(b"[]", tls=tls_server(pem, asks_for_certificate=True))
    shown = RestPlace(url, authority=authority, certificate=plain, key=plain)
    assert HttpAnswers(shown).get("/x") == []
    with pytest.raises(RemoteTransportError, match="give --rest-cert and --rest-key"):
        HttpAnswers(RestPlace(url, authority=authority)).get("/x")
    with pytest.raises(
        RemoteTransportError, match=r"not trusted .* with --rest-ca or in SSL_CERT_"
    ):
        HttpAnswers(RestPlace(url)).get("/x")
    here = url.replace("127.0.0.1", "localhost")
    with pytest.raises(RemoteTransportError, match=r"not valid for .*give a name that it has"):
        HttpAnswers(RestPlace(here, authority=authority)).get("/x")
    with pytest.raises(RemoteTransportError, match=r"give https://127"):
        HttpAnswers(RestPlace(url.replace("https", "http"))).get("/x")
    with pytest.raises(RemoteTransportError, match=r"without TLS; give http://127"):
        HttpAnswers(RestPlace(serve(b"").replace("http", "https"))).get("/x")
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    assert HttpAnswers(RestPlace(url, certificate=plain)).get("/x") == []


@pytest.mark.parametrize(
    ("url", "files", "text"),
    [
        ("http://h", {"authority": "ca.pem"}, "give https://h"),
        ("https://h", {"authority": "absent.pem"}, "--rest-ca: absent.pem: there is no such file"),
        ("https://h", {"authority": __file__}, "holds no certificate in PEM"),
        ("https://h", {"certificate": __file__}, "--rest-cert, --rest-key: .* openssl pkey"),
        ("https://h", {"certificate": __file__, "key": "absent.pem"}, "--rest-key: absent.pem"),
    ],
)
def test_files_that_are_no_certificates_are_named(
    url: str, files: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        RestClient(RestPlace(url, **files))


def test_a_missing_file_of_ssl_cert_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "absent.pem")
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE: absent\.pem: .*see --rest-ca"):
        RestClient(RestPlace("https://h"))


def test_a_file_in_place_of_a_directory_and_broken_files_say_what_to_give(tmp_path: Path) -> None:
    overview = tmp_path / "jobs" / "overview.json"
    overview.parent.mkdir()
    overview.write_text("{")
    with pytest.raises(ConfigError, match="is a file; give the directory made with"):
        answers_at(RestPlace(str(overview)))
    with pytest.raises(RemoteTransportError, match=r"overview\.json is not JSON; save the answers"):
        answers_at(RestPlace(str(tmp_path))).get("/jobs/overview")


TIMEOUT = "execution.buffer-timeout.interval"
INTERVAL = "execution.checkpointing.interval"

CHECKPOINTS = {
    "mode": "exactly_once",
    "interval": 2000,
    "timeout": 600000,
    "min_pause": 0,
    "max_concurrent": 1,
    "unaligned_checkpoints": True,
    "aligned_checkpoint_timeout": 30,
    "checkpoints_after_tasks_finish": True,
}


def of_cluster(release: str = "2.3.0", **keys: str) -> dict[str, Any]:
    return {
        "/config": {"flink-version": release},
        "/jobmanager/config": [
            {"key": key.replace("_", "."), "value": value} for key, value in keys.items()
        ],
        "/taskmanagers": {"taskmanagers": []},
    }


def described(stated: Stated, *jobs: str) -> RunManifest:
    """The manifest of a trace of these jobs."""
    manifest = tapped()
    scenario = {**manifest.scenario, "job": {"ids": list(jobs), "vertices": [], "edges": []}}
    return stated.put_into(replace(manifest, scenario=scenario))


def test_keys_of_the_job_manager_are_stated_and_others_are_defaults() -> None:
    answers = of_cluster()
    answers["/jobmanager/config"] += [
        {"key": "execution.buffer-timeout", "value": "20 ms"},
        {"key": "rest.port", "value": "8081"},
        {"key": "security.ssl.internal.key-password", "value": "******"},
        {"key": "taskmanager.network.memory.buffers-per-channel", "value": "7"},
        {"key": "taskmanager.network.no-such-key", "value": "1"},
    ]
    found = described(ReportedSettings(MadeAnswers(answers)).of(()))
    assert found.settings_from == {TIMEOUT: "JobManager"}
    assert found.flink_keys[TIMEOUT] == "20 ms"
    assert found.flink_keys["taskmanager.network.memory.buffers-per-channel"] == "2"


def test_flink_1_acts_on_keys_that_2_ignores() -> None:
    answers = of_cluster("1.20.5")
    key = "taskmanager.network.memory.floating-buffers-per-gate"
    answers["/jobmanager/config"] += [{"key": key, "value": "16"}]
    found = described(ReportedSettings(MadeAnswers(answers)).of(()))
    assert found.settings_from == {key: "JobManager"}
    assert found.flink_keys[key] == "16"


def test_task_managers_report_their_memory() -> None:
    found = described(ReportedSettings(saved("2.3.0")).of(()))
    assert found.flink_keys["taskmanager.memory.network.min"] == "64 mb"
    assert found.settings_from == {
        "taskmanager.bind-host": "JobManager",
        "taskmanager.memory.network.min": "TaskManagers",
        "taskmanager.memory.segment-size": "TaskManagers",
    }


def test_a_job_reports_its_checkpoints() -> None:
    answers = of_cluster() | {"/jobs/a/checkpoints/config": CHECKPOINTS}
    found = described(ReportedSettings(MadeAnswers(answers)).of(("a", "b")), "a")
    assert found.settings_from is not None
    assert set(found.settings_from.values()) == {"job"}
    assert found.flink_keys[INTERVAL] == "2 s"
    assert found.flink_keys["execution.checkpointing.unaligned.enabled"] == "true"
    assert found.flink_keys["execution.checkpointing.aligned-checkpoint-timeout"] == "30 ms"


def test_a_real_job_reports_its_checkpoints() -> None:
    found = checkpoint_settings(saved("2.3.0"), "5c5e91482bb235d60b350e4a338369ef")
    assert found == {
        INTERVAL: "1000 ms",
        "execution.checkpointing.timeout": "600000 ms",
        "execution.checkpointing.aligned-checkpoint-timeout": "0 ms",
        "execution.checkpointing.unaligned.enabled": "false",
        "execution.checkpointing.checkpoints-after-tasks-finish": "true",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
    }


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"interval": 0}, {"interval": (1 << 63) - 1}, {"interval": "often"}]
)
def test_a_job_without_periodic_checkpoints_has_no_settings(answer: object) -> None:
    assert checkpoint_settings(MadeAnswers({"/jobs/a/checkpoints/config": answer}), "a") == {}
    assert checkpoint_settings(MadeAnswers({}), "a") == {}


def test_jobs_of_one_trace_state_what_they_have_in_common() -> None:
    jobs = {
        "a": {INTERVAL: "1 s", "execution.checkpointing.timeout": "1 min"},
        "b": {INTERVAL: "2 s", "execution.checkpointing.timeout": "1 min"},
    }
    found = described(Stated((Layer("JobManager", {}),), jobs=jobs), "a", "b")
    assert found.settings_from == {"execution.checkpointing.timeout": "job"}


def test_what_a_user_states_is_over_the_cluster_and_under_the_job() -> None:
    stated = Stated(
        (Layer("JobManager", {TIMEOUT: "50 ms", INTERVAL: "1 s"}),),
        (Layer("config.yaml", {TIMEOUT: "20 ms", INTERVAL: "2 s"}),),
        {"a": {INTERVAL: "3 s"}},
    )
    found = described(stated, "a")
    assert (found.flink_keys[TIMEOUT], found.flink_keys[INTERVAL]) == ("20 ms", "3 s")
    assert found.settings_from == {TIMEOUT: "config.yaml", INTERVAL: "job"}


def test_what_flinknet_cannot_take_together_is_not_stated() -> None:
    largest = {"taskmanager.memory.segment-size": "4kb"}
    smallest = {"taskmanager.memory.min-segment-size": "8kb"}
    stated = Stated((Layer("JobManager", largest),), jobs={"a": smallest})
    assert described(stated, "a").settings_from is None
    given = replace(stated, given=(Layer("config.yaml", {TIMEOUT: "20 ms"}),))
    assert described(given, "a").settings_from == {TIMEOUT: "config.yaml"}
    with pytest.raises(ConfigError, match="are not in order"):
        Stated(given=(Layer("config.yaml", {**largest, **smallest}),)).put_into(tapped())


def test_partitioners_that_choose_idle_channels_are_known_of_a_trace() -> None:
    key = "taskmanager.network.adaptive-partitioner.enabled"
    for value, is_adaptive in (("true", True), ("false", None)):
        answers = of_cluster()
        answers["/jobmanager/config"].append({"key": key, "value": value})
        found = described(ReportedSettings(MadeAnswers(answers)).of(()))
        assert found.scenario.get(IS_ADAPTIVE) is is_adaptive
        given = described(Stated(given=(Layer("config.yaml", {key: value}),)))
        assert given.scenario.get(IS_ADAPTIVE) is is_adaptive


def test_without_a_statement_the_messages_tell() -> None:
    assert described(Stated()).flink_keys == {}
