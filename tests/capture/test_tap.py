"""The tap with real sockets on loopback: what comes in goes out, whatever happens."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.capture import ChannelTable, ConnectionObserver
from flinknet.capture.channels import Ends
from flinknet.capture.meter import channel_rows
from flinknet.capture.rest.http_client import RestPlace
from flinknet.capture.rest.settings import Layer
from flinknet.capture.tap import Tap, TapConfig, TlsContexts, create_contexts
from flinknet.capture.tap.ends import Address, NotRedirectedError, address_of, check_not_own, plain
from flinknet.capture.tap.proxy import CONNECT_TIMEOUT_NS, Proxy
from flinknet.capture.tap.relay import CHUNK_BYTES, Relay
from flinknet.core.wire.messages import AddCredit
from flinknet.errors import ConfigError, LocalTransportError
from flinknet.runtime.clock import monotonic_ns
from flinknet.trace import RunManifest, open_run
from flinknet.trace.verify import verify_run
from tests.capture.conversations import Rows, buffer, elements, request, stream
from tests.capture.rest.saved import directory
from tests.certificate_set import AUTHORITY_PEM, NODE_PEM, generate
from tests.pair import RECEIVER, partition_id

HOST = "127.0.0.1"
MS = 1_000_000
PASSWORD = "of the key"
WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
pytestmark = pytest.mark.socket


class Tapped:
    """A proxy in the test's hand, with an upstream that the test plays."""

    def __init__(self, tls: TlsContexts | None = None, *, has_upstream: bool = True) -> None:
        self.rows = Rows()
        self.table = ChannelTable()
        self.ended: list[Relay] = []
        self.upstream = socket.create_server((HOST, 0))
        address = self.upstream.getsockname()
        if not has_upstream:
            self.upstream.close()
        self.proxy = Proxy([((HOST, 0), address)], self.observer, self.ended.append, tls)
        self.sockets: list[socket.socket] = []

    def observer(self, ends: Ends) -> ConnectionObserver:
        return ConnectionObserver(self.rows, self.table, ends=ends)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.proxy.run_once(5 * MS)

    def until(self, is_so: Callable[[], object], turns: int = 2000) -> None:
        for _ in range(turns):
            if is_so():
                return
            self.turn()
        raise AssertionError("it never came about")

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """A connection through the tap: the consumer's end and the producer's."""
        before = self.proxy.accepted
        client = socket.create_connection(self.proxy.addresses[0])
        self.until(lambda: self.proxy.accepted > before)
        server, _ = self.upstream.accept()
        self.sockets += [client, server]
        self.until(lambda: all(each.is_established for each in self.proxy.relays))
        return client, server

    def pass_on(self, source: socket.socket, target: socket.socket, data: bytes) -> bytes:
        """Send data while the tap turns, and receive what comes out."""
        source.setblocking(False)
        target.setblocking(False)
        left, got = memoryview(data), bytearray()
        for _ in range(100_000):
            if left:
                with contextlib.suppress(*WAITS):
                    left = left[source.send(left[: 1 << 14]) :]
            self.turn()
            with contextlib.suppress(*WAITS):
                got += target.recv(1 << 16)
            if len(got) == len(data):
                return bytes(got)
        raise AssertionError(f"{len(got)} of {len(data)} bytes came")

    def close(self) -> None:
        self.proxy.close()
        self.upstream.close()
        for sock in self.sockets:
            sock.close()


@contextlib.contextmanager
def descriptors_used_up() -> Iterator[list[int]]:
    """Leaves no descriptor free. Yields: those that may be closed to have some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare[0] + 1, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                spare.append(os.dup(0))
        yield spare
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)


@pytest.fixture
def bench() -> Iterator[Tapped]:
    made = Tapped()
    yield made
    made.close()


def test_bytes_go_both_ways_unchanged_and_are_observed(bench: Tapped) -> None:
    begun_ns = monotonic_ns()
    client, server = bench.connect()
    asked = stream(request(), AddCredit(3, RECEIVER))
    assert bench.pass_on(client, server, asked) == asked
    data = stream(*(buffer(number, elements([40] * 200)) for number in range(100)))
    assert bench.pass_on(server, client, data) == data
    (channel,) = bench.table.channels
    assert (channel.data_buffers, channel.records) == (100, 20_000)
    assert channel.credits_available == (1 << 20) + 3 - 100
    summary = bench.proxy.turn.summary()
    assert summary.count >= 2
    assert summary.min is not None
    assert summary.max is not None
    assert 0 < summary.min <= summary.max < monotonic_ns() - begun_ns


def test_garbage_is_forwarded_and_reported(bench: Tapped) -> None:
    client, server = bench.connect()
    junk = bytes(range(256)) * 500
    assert bench.pass_on(server, client, junk) == junk
    assert bench.pass_on(client, server, junk) == junk
    assert bench.proxy.relays[0].observer.summary()["losses"] == 2


def test_an_observer_that_fails_stops_nothing(
    bench: Tapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = bench.connect()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("flinknet.capture.frame_stream.FrameStream.receive", fail)
    data = stream(request()) * 3
    assert bench.pass_on(client, server, data) == data
    assert bench.pass_on(server, client, data) == data
    assert bench.proxy.observer_failures == 1
    assert "ZeroDivisionError: a bug" in bench.proxy.incidents[-1]["text"]


def test_a_fault_of_the_tap_costs_one_connection(
    bench: Tapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = bench.connect()
    other_client, other_server = bench.connect()
    monkeypatch.setattr(bench.proxy.relays[0], "handle_readable", None)
    client.sendall(b"x")
    bench.until(lambda: len(bench.proxy.relays) == 1)
    assert "a fault of the tap: TypeError" in bench.proxy.incidents[-1]["text"]
    assert bench.pass_on(other_client, other_server, b"still here") == b"still here"


def test_what_goes_wrong_with_looking_is_reported_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flinknet.capture.tap.session.LOOK_NS", 0)

    def look(_: object) -> None:
        raise ZeroDivisionError("a bug")

    pairs = (((HOST, 0), (HOST, 1)),)
    config = TapConfig(pairs=pairs, out=tmp_path / "out", duration_ns=20 * MS)
    result = Tap(config, look).run()
    assert result["stopped_by"] == "duration"
    assert result["recording_error"] == "ZeroDivisionError: a bug"
    assert verify_run(open_run(tmp_path / "out")).is_ok


def test_the_settings_of_a_cluster_are_in_the_manifest_of_a_tap(tmp_path: Path) -> None:
    pairs = (((HOST, 0), (HOST, 1)),)
    given = (Layer("config.yaml", {"execution.buffer-timeout.interval": "20 ms"}),)
    rest = RestPlace(str(directory("2.3.0")))
    config = TapConfig(
        pairs=pairs, out=tmp_path / "out", duration_ns=20 * MS, stated=given, rest=rest
    )
    result = Tap(config, lambda look: None).run()
    assert result["recording_error"] is None
    manifest = RunManifest.load(tmp_path / "out")
    assert manifest.flink_keys["execution.buffer-timeout.interval"] == "20 ms"
    assert manifest.flink_keys["taskmanager.memory.segment-size"] == "32 kb"
    origins = manifest.settings_from
    assert origins is not None
    assert origins["execution.buffer-timeout.interval"] == "config.yaml"
    assert origins["taskmanager.memory.segment-size"] == "TaskManagers"
    settings = {each["key"]: each for each in result["rest"]["settings"]}
    assert settings["execution.buffer-timeout.interval"]["value"] == "20 ms"
    assert {key: each["from"] for key, each in settings.items()} == origins


def test_a_peer_that_stops_reading_is_bounded_and_stops_the_other(bench: Tapped) -> None:
    client, server = bench.connect()
    other_client, other_server = bench.connect()
    server.setblocking(False)
    sent = bytearray()
    for number in range(2000):
        piece = number.to_bytes(4) * (1 << 14)
        with contextlib.suppress(BlockingIOError):
            sent += piece[: server.send(piece)]
            continue
        bench.turn()
        if bench.proxy.relays[0].from_server.held is not None:
            break
    relay = bench.proxy.relays[0]
    assert relay.from_server.held is not None
    assert len(relay.from_server.held) <= CHUNK_BYTES
    assert relay.wanted(relay.server) == (False, False)  # nothing more is received
    bench.turn(20)
    assert relay.from_server.bytes < len(sent)  # the rest waits with the sender
    assert bench.pass_on(other_server, other_client, b"x" * 100_000) == b"x" * 100_000
    received = bytearray()
    client.setblocking(False)
    for _ in range(100_000):
        bench.turn()
        with contextlib.suppress(BlockingIOError):
            received += client.recv(1 << 20)
        if len(received) == len(sent):
            break
    assert received == sent


@pytest.mark.parametrize("first", ["client", "server"])
def test_a_half_that_ends_leaves_the_other_open(bench: Tapped, first: str) -> None:
    client, server = bench.connect()
    one, other = (client, server) if first == "client" else (server, client)
    one.sendall(b"last words")
    one.shutdown(socket.SHUT_WR)
    bench.until(lambda: bench.proxy.relays[0].from_client.is_ended
                or bench.proxy.relays[0].from_server.is_ended)  # fmt: skip
    other.settimeout(5)
    assert other.recv(100) == b"last words"
    assert other.recv(100) == b""
    assert bench.pass_on(other, one, b"x" * 300_000) == b"x" * 300_000
    other.close()
    bench.until(lambda: not bench.proxy.relays)
    assert bench.ended[0].failure is None


def test_a_reset_closes_its_own_connection_only(bench: Tapped) -> None:
    client, server = bench.connect()
    other_client, other_server = bench.connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    bench.until(lambda: len(bench.proxy.relays) == 1)
    assert "the consumer" in bench.proxy.incidents[-1]["text"]
    server.settimeout(5)
    assert server.recv(1) == b""
    assert bench.pass_on(other_client, other_server, b"still here") == b"still here"


def test_an_upstream_that_is_not_there_refuses_that_client_only() -> None:
    bench = Tapped(has_upstream=False)
    client = socket.create_connection(bench.proxy.addresses[0])
    bench.until(lambda: bench.proxy.refused)
    client.settimeout(5)
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
    assert "Connection refused; is its TaskManager up?" in bench.proxy.incidents[-1]["text"]
    assert not bench.proxy.relays
    again = socket.create_connection(bench.proxy.addresses[0])
    bench.until(lambda: bench.proxy.refused == 2)
    client.close()
    again.close()
    bench.close()


def test_200_connections_at_once_that_come_and_go(bench: Tapped) -> None:
    pairs = [bench.connect() for _ in range(200)]
    frames = stream(request(), AddCredit(1, RECEIVER))
    for client, _ in pairs:
        client.sendall(frames)
    bench.until(lambda: len(bench.rows.all) == 400)
    for _, server in pairs:
        assert server.recv(1000) == frames
    assert len(bench.table) == 200
    for client, server in pairs:
        client.close()
        server.close()
    bench.until(lambda: not bench.proxy.relays)
    assert len(bench.ended) == 200


def test_the_limit_of_open_files_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    bench = Tapped()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > soft - 1
    bench.close()


def test_an_upstream_without_a_descriptor_is_not_blamed(bench: Tapped) -> None:
    waiting = socket.create_connection(bench.proxy.addresses[0])
    bench.sockets.append(waiting)
    with descriptors_used_up() as spare:
        os.close(spare.pop())  # for the client, but not for the upstream
        bench.until(lambda: bench.proxy.refused)
    assert "too many open files; raise the limit (ulimit -n)" in bench.proxy.incidents[-1]["text"]
    assert "upstream" not in bench.proxy.incidents[-1]["text"]


def test_tls_without_certificates_is_named_and_forwarded(
    bench: Tapped, pem: tuple[Path, Path, Path]
) -> None:
    raw, accepted = bench.connect()
    contexts = create_contexts(*pem, PASSWORD)
    hello, unsent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        contexts.client.wrap_bio(hello, unsent).do_handshake()
    first, answer = unsent.read(), b"\x16\x03\x03\0\0 and so on"
    assert bench.pass_on(raw, accepted, first) == first
    assert bench.pass_on(accepted, raw, answer) == answer
    bench.proxy.tick(monotonic_ns())
    assert bench.proxy.tls_connections == 1
    (warning,) = bench.proxy.warnings
    assert "this is TLS" in warning
    assert "--tls-cert, --tls-key and --tls-ca" in warning


@pytest.mark.parametrize("own", ["0.0.0.0", "::"])
@pytest.mark.parametrize("upstream", [HOST, "localhost"])
def test_a_tap_in_front_of_itself_is_refused(bench: Tapped, own: str, upstream: str) -> None:
    family = socket.AF_INET6 if ":" in own else socket.AF_INET
    with socket.create_server((own, 0), family=family) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConfigError, match=f"--upstream: {upstream}:{port} is the tap's own"):
        Proxy([((own, port), (upstream, port))], bench.observer, bench.ended.append)


def test_channels_know_how_often_their_producer_was_started_again(bench: Tapped) -> None:
    client, server = bench.connect()
    first = partition_id()
    for number in range(3):
        producer = replace(first.producer_id, attempt_number=number)
        later = replace(first, producer_id=producer)
        asked = stream(replace(request(bytes([number]) * 16), partition_id=later))
        assert bench.pass_on(client, server, asked) == asked
    rows = channel_rows(bench.table.channels, 1)
    assert [each["later_attempts"] for each in rows] == [2, 1, 0]


def test_without_descriptors_the_listener_rests_until_the_next_tick(bench: Tapped) -> None:
    waiting = socket.create_connection(bench.proxy.addresses[0])
    bench.sockets.append(waiting)
    with descriptors_used_up():
        bench.turn(3)
    assert bench.proxy.incident_count == 1
    assert "raise the limit (ulimit -n)" in bench.proxy.incidents[-1]["text"]
    assert bench.proxy.accepted == 0
    bench.proxy.tick(monotonic_ns())
    bench.until(lambda: bench.proxy.accepted == 1)


def test_a_handshake_that_never_ends_is_given_up(pem: tuple[Path, Path, Path]) -> None:
    bench = Tapped(create_contexts(*pem, PASSWORD))
    silent = socket.create_connection(bench.proxy.addresses[0])
    bench.until(lambda: bench.proxy.relays and bench.proxy.relays[0].is_connected)
    bench.proxy.tick(monotonic_ns())
    assert bench.proxy.relays
    bench.proxy.tick(monotonic_ns() + CONNECT_TIMEOUT_NS)
    assert not bench.proxy.relays
    assert "no answer of the handshake within 10 s" in bench.proxy.incidents[-1]["text"]
    silent.close()
    bench.close()


def test_an_address_that_is_taken_is_reported(bench: Tapped) -> None:
    taken = bench.proxy.addresses[0]
    with pytest.raises(LocalTransportError, match=f"--listen {HOST}:{taken[1]}.*in use"):
        Proxy([(taken, (HOST, 1))], bench.observer, bench.ended.append)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    directory = tmp_path_factory.mktemp("tls")
    generate(directory, PASSWORD)
    return directory / NODE_PEM, directory / NODE_PEM, directory / AUTHORITY_PEM


def test_tls_is_ended_and_begun_anew(pem: tuple[Path, Path, Path]) -> None:
    contexts = create_contexts(*pem, PASSWORD)
    bench = Tapped(contexts)
    raw = socket.create_connection(bench.proxy.addresses[0])
    raw.setblocking(False)
    client = contexts.client.wrap_socket(raw, do_handshake_on_connect=False)
    bench.until(lambda: bench.proxy.relays)
    accepted, _ = bench.upstream.accept()
    accepted.setblocking(False)
    server = contexts.server.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    bench.sockets += [client, server]
    for _ in range(500):
        bench.turn()
        for end in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
        if bench.proxy.relays[0].is_established:
            break
    data = stream(request(), AddCredit(2, RECEIVER))
    assert bench.pass_on(client, server, data) == data
    data = stream(*(buffer(number, elements([40] * 300)) for number in range(60)))
    assert bench.pass_on(server, client, data) == data
    assert bench.table.channels[0].records == 18_000
    client.close()
    bench.until(lambda: not bench.proxy.relays)
    bench.close()


def test_a_client_without_tls_learns_why_it_fails(pem: tuple[Path, Path, Path]) -> None:
    bench = Tapped(create_contexts(*pem, PASSWORD))
    client = socket.create_connection(bench.proxy.addresses[0])
    client.sendall(stream(request()))
    bench.until(lambda: bench.ended)
    assert "the consumer" in bench.proxy.incidents[-1]["text"]
    assert "does not speak TLS" in bench.proxy.incidents[-1]["text"]
    client.close()
    bench.close()


def test_files_that_are_no_certificates_are_named(
    pem: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    certificate, key, authority = pem
    with pytest.raises(ConfigError, match=r"--tls-key: .*no such file"):
        create_contexts(certificate, tmp_path / "absent.pem", authority)
    with pytest.raises(ConfigError, match="--tls-cert, --tls-key"):
        create_contexts(authority, key, authority, PASSWORD)
    with pytest.raises(ConfigError, match="--tls-password-file"):
        create_contexts(certificate, key, authority)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ConfigError, match="--tls-ca"):
        create_contexts(certificate, key, empty, PASSWORD)


def test_a_redirected_connection_goes_where_it_was_going(
    bench: Tapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel has it of iptables' REDIRECT; and never round and round."""
    destination: list[Address] = [bench.upstream.getsockname()]
    name = "flinknet.capture.tap.proxy.original_destination"
    monkeypatch.setattr(name, lambda _: destination[0])
    bench.proxy.close()
    bench.proxy = proxy = Proxy([((HOST, 0), None)], bench.observer, bench.ended.append)
    client, server = bench.connect()
    asked = stream(request())
    assert bench.pass_on(client, server, asked) == asked
    (relay,) = proxy.relays
    assert relay.observer.ends.producer == f"{HOST}:{destination[0][1]}"
    destination[0] = proxy.addresses[0]  # the tap's own connection is redirected, too
    bench.sockets.append(socket.create_connection(proxy.addresses[0]))
    bench.until(lambda: proxy.refused)
    assert "the tap's own connection came back" in proxy.incidents[-1]["text"]
    assert proxy.accepted == 3


def test_a_connection_that_was_not_redirected_has_no_upstream(bench: Tapped) -> None:
    bench.proxy.close()
    bench.proxy = Proxy([((HOST, 0), None)], bench.observer, bench.ended.append)
    bench.sockets.append(socket.create_connection(bench.proxy.addresses[0]))
    bench.until(lambda: bench.proxy.refused)
    assert "not redirected to it" in bench.proxy.incidents[-1]["text"]
    assert not bench.proxy.relays


def test_a_peer_with_ipv4_is_known_behind_a_listener_of_ipv6() -> None:
    assert plain(("::ffff:10.0.0.7", 1)) == ("10.0.0.7", 1)
    assert plain(("fe80::7", 1)) == ("fe80::7", 1)
    with pytest.raises(NotRedirectedError, match="own connection"):
        check_not_own(("::ffff:10.0.0.7", 1), [("10.0.0.7", 1)])


def test_addresses_of_the_kernel() -> None:
    head = (2).to_bytes(2, "little") + (6121).to_bytes(2, "big")
    assert address_of(head + bytes([10, 0, 0, 7]) + bytes(8)) == ("10.0.0.7", 6121)
    ipv6 = socket.inet_pton(socket.AF_INET6, "fe80::7")
    assert address_of(head + bytes(4) + ipv6 + bytes(4)) == ("fe80::7", 6121)
