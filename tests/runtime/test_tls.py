"""TLS on the data port: who is let in, what is on the wire, and what is said when it fails."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import NullProbe
from flinknet.errors import ConfigError, RemoteProtocolError, TlsError
from flinknet.options import network_config
from flinknet.runtime.tls import (
    HANDSHAKE_TIMEOUT_NS,
    TlsConnection,
    create_tls,
    openssl_ciphers,
)
from tests.certificate_set import generate, settings_for
from tests.node import HOST, Node, drive, settle

PASSWORD = "a secret"
PLAIN = NetworkConfig()
NewNode = Callable[..., Node]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of certificates, of authorities that do not know each other."""
    path = tmp_path_factory.mktemp("certificates")
    generate(path / "ours", PASSWORD)
    generate(path / "theirs", PASSWORD)
    return path


def network_of(sets: Path, name: str = "ours", *, pem: bool = False, **more: str) -> NetworkConfig:
    """Settings with a set; `more` are keys of security.ssl, with _ for . and -."""
    settings = settings_for(sets / name, PASSWORD, pem=pem)
    if more.get("security.ssl.protocol") == "TLSv1.3":
        more = {"security.ssl.algorithms": "TLS_AES_128_GCM_SHA256"} | more
    return network_config({**settings, **more})[0]


class Line:
    """A Connection that says what it is given, and keeps what it hears."""

    def __init__(self, *to_say: bytes) -> None:
        self.to_say = list(to_say)
        self.heard = bytearray()
        self.is_closing = False
        self.is_ready = False
        self.wants_data = True
        self.end: list[object] = []
        self.deadlines_ns: list[int] = []

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        self.heard += data

    def receive_eof(self, *, now_ns: int, error: object = None) -> None:
        self.end.append(error)

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, **_: int
    ) -> list[bytes | memoryview]:
        return [self.to_say.pop(0)] if self.to_say and not unsent_bytes else []

    def next_deadline_ns(self) -> int | None:
        return 77

    def handle_deadline(self, *, now_ns: int) -> None:
        self.deadlines_ns.append(now_ns)
        self.wants_data = True


class Wire:
    """Two TLS connections joined by bytes, and all that went over."""

    def __init__(
        self, client: Line, server: Line, ours: NetworkConfig, theirs: NetworkConfig | None = None
    ) -> None:
        self.client = create_tls(ours).around(client, is_server=False)
        self.server = create_tls(theirs or ours).around(server, is_server=True)
        self.bytes = bytearray()

    def run(self, cut: int = 1_000_000, limit: int = 100) -> None:
        """Exchange bytes in pieces of at most `cut` until nothing moves."""
        for _ in range(limit):
            moved = False
            for end, other in ((self.client, self.server), (self.server, self.client)):
                data = b"".join(end.data_to_send(now_ns=5))
                self.bytes += data
                for start in range(0, len(data), cut):
                    moved = True
                    other.receive_data(memoryview(data[start : start + cut]), now_ns=5)
            if not moved:
                return
        raise AssertionError("it never comes to rest")


@pytest.mark.row("S072")
@pytest.mark.parametrize("cut", [1, 1000, 1_000_000])
def test_everything_arrives_and_nothing_of_it_is_on_the_wire(sets: Path, cut: int) -> None:
    said = [b"payload %d;" % number * 4000 for number in range(3)]
    client, server = Line(b"hello, producer"), Line(*said)
    wire = Wire(client, server, network_of(sets))
    wire.run(cut)
    assert bytes(server.heard) == b"hello, producer"
    assert bytes(client.heard) == b"".join(said)
    assert b"payload" not in wire.bytes
    assert b"hello" not in wire.bytes
    assert len(wire.bytes) > len(client.heard)


@pytest.mark.row("S072")
@pytest.mark.parametrize("pem", [False, True], ids=["pkcs12", "pem"])
def test_the_handshake_is_mutual_with_flinks_protocol_and_ciphers(sets: Path, pem: bool) -> None:
    wire = Wire(Line(b"x"), Line(), network_of(sets, pem=pem))
    wire.run()
    for end in (wire.client, wire.server):
        assert end.is_established
        assert end._tls.version() == "TLSv1.2"
        cipher = end._tls.cipher()
        assert cipher is not None
        assert cipher[0] in ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384")
        assert end._tls.getpeercert(binary_form=True)


@pytest.mark.parametrize(
    ("protocol", "algorithms", "version", "cipher"),
    [
        ("TLSv1.2", "TLS_RSA_WITH_AES_128_CBC_SHA", "TLSv1.2", "AES128-SHA"),
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256", "TLSv1.3", None),
        ("TLSv1.2,TLSv1.3", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLSv1.3", None),
    ],
)
def test_protocol_and_cipher_are_those_asked_for(
    sets: Path, protocol: str, algorithms: str, version: str, cipher: str | None
) -> None:
    keys = {"security.ssl.protocol": protocol, "security.ssl.algorithms": algorithms}
    wire = Wire(Line(b"x"), Line(b"y"), network_of(sets, **keys))
    wire.run()
    assert wire.client._tls.version() == version
    found = wire.client._tls.cipher()
    assert found is not None
    assert cipher in (None, found[0])
    assert bytes(wire.server.inner.heard) == b"x"  # type: ignore[attr-defined]


@pytest.mark.row("S072")
@pytest.mark.parametrize(
    ("ours", "theirs"), [("ours", "theirs"), ("theirs", "ours")], ids=["server", "client"]
)
def test_a_certificate_of_a_stranger_fails_the_handshake(
    sets: Path, ours: str, theirs: str
) -> None:
    wire = Wire(Line(b"x"), Line(b"y"), network_of(sets, ours), network_of(sets, theirs))
    with pytest.raises(RemoteProtocolError, match="certificate is not trusted"):
        wire.run()
    assert wire.client.is_closing
    wire.client.receive_eof(now_ns=5)
    (error,) = wire.client.inner.end  # type: ignore[attr-defined]
    assert isinstance(error, TlsError)
    assert "security.ssl.internal.truststore" in str(error)
    assert (wire.client.inner.heard, wire.server.inner.heard) == (b"", b"")  # type: ignore[attr-defined]
    alert = b"".join(wire.client.data_to_send(now_ns=5))
    with pytest.raises(RemoteProtocolError, match="the peer refused"):
        wire.server.receive_data(memoryview(alert), now_ns=5)


@pytest.mark.row("S072")
def test_a_client_whose_certificate_is_a_strangers_is_refused_by_the_server(sets: Path) -> None:
    # This client trusts us, but shows what we do not trust.
    client = network_of(sets, "theirs")
    client = replace(client, ssl_truststore=str(sets / "ours" / "truststore.p12"))
    wire = Wire(Line(b"x"), Line(b"y"), client, network_of(sets))
    with pytest.raises(RemoteProtocolError, match="certificate is not trusted"):
        wire.run()
    assert isinstance(wire.server.error, TlsError)
    assert wire.server.inner.heard == b""  # type: ignore[attr-defined]


def pinning(sets: Path, name: str, pinned: str, path: Path, protocol: str) -> NetworkConfig:
    """Settings with a set, whose trust store has the certificate of another one's node alone."""
    _, begin, chain = (sets / pinned / "node.pem").read_text().partition("-----BEGIN CERT")
    store = path / f"{pinned}.pem"
    store.write_text(begin + chain[: chain.index(begin)])
    network = network_of(sets, name, pem=True, **{"security.ssl.protocol": protocol})
    return replace(network, ssl_truststore=str(store))


@pytest.mark.row("S072")
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_trust_store_with_the_certificate_of_the_peer_alone_lets_in_that_peer_alone(
    sets: Path, tmp_path: Path, protocol: str
) -> None:
    ours = pinning(sets, "ours", "theirs", tmp_path, protocol)
    wire = Wire(Line(b"x"), Line(b"y"), ours, pinning(sets, "theirs", "ours", tmp_path, protocol))
    wire.run()
    for end, other in ((wire.client, b"y"), (wire.server, b"x")):
        assert end._tls.version() == protocol
        assert bytes(end.inner.heard) == other  # type: ignore[attr-defined]
    trusting = network_of(sets, **{"security.ssl.protocol": protocol})
    for ends in ((ours, trusting), (trusting, ours)):
        wire = Wire(Line(b"x"), Line(b"y"), *ends)
        with pytest.raises(RemoteProtocolError, match="certificate is not trusted"):
            wire.run()
        (strict,) = (each for each in (wire.client, wire.server) if each.error is not None)
        assert strict.inner.heard == b""  # type: ignore[attr-defined]


@pytest.mark.row("S072")
def test_a_certificate_that_has_expired_is_refused_though_the_trust_store_has_it(
    tmp_path: Path,
) -> None:
    generate(tmp_path / "old", PASSWORD, days=0)
    old = pinning(tmp_path, "old", "old", tmp_path, "TLSv1.2")
    said = r"not valid today .*has expired\); let it be renewed, and check the clocks"
    with pytest.raises(RemoteProtocolError, match=said) as caught:
        Wire(Line(b"x"), Line(b"y"), old).run()
    assert "truststore" not in str(caught.value)


@pytest.mark.row("S072")
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_client_without_a_certificate_is_refused(sets: Path, protocol: str) -> None:
    network = network_of(sets, **{"security.ssl.protocol": protocol})
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    wire = Wire(Line(b"x"), Line(b"y"), network)
    wire.client = TlsConnection(Line(b"x"), client, is_server=False)
    with pytest.raises(RemoteProtocolError, match="peer did not return a certificate"):
        wire.run()


def test_a_handshake_that_takes_too_long_is_given_up(sets: Path) -> None:
    keys = {"security.ssl.internal.handshake-timeout": "250"}
    line = Line(b"x")
    client = create_tls(network_of(sets, **keys)).around(line, is_server=False)
    assert client.next_deadline_ns() is None
    client.data_to_send(now_ns=1000)
    assert client.next_deadline_ns() == 250_001_000
    client.handle_deadline(now_ns=250_000_999)
    assert not client.is_closing
    client.handle_deadline(now_ns=250_001_000)
    assert client.is_closing
    client.receive_eof(now_ns=250_001_000)
    assert "took longer than 0.25 s" in str(line.end[0])
    assert create_tls(network_of(sets)).handshake_timeout_ns == HANDSHAKE_TIMEOUT_NS


def test_deadlines_and_wishes_are_those_of_the_inner_connection(sets: Path) -> None:
    client, server = Line(), Line(b"first")
    client.is_ready = True
    wire = Wire(client, server, network_of(sets))
    assert not wire.client.is_ready  # it is not asked before the handshake
    wire.run()
    assert wire.client.is_ready
    client.is_ready = False
    assert not wire.client.is_ready
    assert wire.client.next_deadline_ns() == 77
    client.wants_data = False
    server.to_say.append(b"second")
    wire.run()
    assert (client.heard, wire.client.wants_data) == (b"first", False)
    wire.client.handle_deadline(now_ns=78)  # it wants data again
    assert client.deadlines_ns == [78]
    assert client.heard == b"firstsecond"


def test_a_connection_that_closes_says_farewell_first(sets: Path) -> None:
    client, server = Line(), Line(b"last words")
    wire = Wire(client, server, network_of(sets))
    wire.run()
    server.is_closing = True
    assert not wire.server.is_closing
    farewell = b"".join(wire.server.data_to_send(now_ns=5))
    assert farewell
    assert wire.server.data_to_send(now_ns=5) == ()
    assert wire.server.is_closing
    wire.client.receive_data(memoryview(farewell), now_ns=5)
    wire.client.receive_eof(now_ns=5)
    assert (client.heard, client.end) == (b"last words", [None])


def test_bytes_that_are_changed_on_their_way_are_noticed(sets: Path) -> None:
    client, server = Line(), Line()
    wire = Wire(client, server, network_of(sets))
    wire.run()
    server.to_say.append(b"a payload")
    data = bytearray(b"".join(wire.server.data_to_send(now_ns=5)))
    data[-1] ^= 1
    with pytest.raises(RemoteProtocolError, match="bad record mac"):
        wire.client.receive_data(memoryview(data), now_ns=5)
    assert client.heard == b""


# Over sockets


@pytest.mark.socket
@pytest.mark.row("S072")
@pytest.mark.row("S073")
@pytest.mark.parametrize("flow_control", ["credit", "tcp"])
def test_data_flows_between_nodes_and_tls_stands_first_on_both_ends(
    sets: Path, node: NewNode, flow_control: str
) -> None:
    one = node(network_of(sets), flow_control=flow_control)
    other = node(network_of(sets), flow_control=flow_control)
    other.read_from(one, 0)
    expected = b"".join(bytes([number]) * 3000 for number in range(60))
    written = 0
    read = bytearray()

    def is_done() -> bool:
        nonlocal written
        while written < 60 and one.partition.pool.available_buffers > 2:
            one.write(0, bytes([written]) * 3000)
            written += 1
        for _, data in other.read():
            read.extend(data)
        return len(read) == len(expected)

    drive([one, other], is_done)
    assert bytes(read) == expected
    inner = []
    for each in (one, other):
        (transport,) = each.loop.transports
        assert isinstance(transport.connection, TlsConnection)
        inner.append(transport.connection.inner)
    assert inner[-1] is other.clients[0]


@pytest.mark.socket
@pytest.mark.row("S072")
def test_a_client_that_speaks_plain_text_is_refused(sets: Path, node: NewNode) -> None:
    one = node(network_of(sets))
    other = node(PLAIN)
    channel = other.read_from(one, 0)
    one.write(0, b"a secret payload")
    drive([one, other], lambda: channel.error is not None)
    assert one.accepted == []  # it is closed, and had opened no channel
    with socket.create_connection((HOST, one.port)) as raw:
        client = ConsumerConnection("tm-0", NullProbe())
        client.request_subpartition(other.channel_to(one, 1), now_ns=0)
        raw.sendall(b"".join(client.data_to_send(now_ns=0)))
        settle([one])
        assert raw.recv(1000) == b""
    assert one.loop.transports == []


@pytest.mark.socket
@pytest.mark.row("S072")
def test_a_server_that_speaks_plain_text_is_reported(sets: Path, node: NewNode) -> None:
    one = node(PLAIN)
    other = node(network_of(sets))
    channel = other.read_from(one, 0)
    drive([one, other], lambda: other.clients[0].error is not None)
    assert "the peer does not speak TLS" in str(other.clients[0].error)
    assert channel.error is not None


@pytest.mark.socket
def test_a_peer_that_leaves_in_the_handshake_is_reported(sets: Path, node: NewNode) -> None:
    other = node(network_of(sets))
    with socket.create_server((HOST, 0)) as server:
        one = node(PLAIN)
        one.port = server.getsockname()[1]
        other.read_from(one, 0)
        settle([other])
        server.accept()[0].close()
        drive([other], lambda: other.clients[0].error is not None)
    assert "in the TLS handshake" in str(other.clients[0].error) or "reset" in str(
        other.clients[0].error
    )


# Settings


def test_without_the_keys_there_is_no_tls(sets: Path, node: NewNode) -> None:
    assert not PLAIN.is_tls
    assert not network_of(sets, **{"taskmanager.data.ssl.enabled": "false"}).is_tls
    assert node(PLAIN).manager.protocol.tls is None
    assert network_of(sets).is_tls


@pytest.mark.parametrize(
    "missing",
    ["keystore", "keystore-password", "key-password", "truststore", "truststore-password"],
)
def test_a_missing_key_is_named(sets: Path, missing: str) -> None:
    settings = settings_for(sets / "ours", PASSWORD)
    del settings[f"security.ssl.internal.{missing}"]
    with pytest.raises(ConfigError, match=rf"^security\.ssl\.internal\.{missing} is missing"):
        create_tls(network_config(settings)[0])


def test_pem_needs_no_store_passwords(sets: Path) -> None:
    settings = settings_for(sets / "ours", PASSWORD, pem=True)
    for name in ("keystore-password", "truststore-password"):
        del settings[f"security.ssl.internal.{name}"]
    create_tls(network_config(settings)[0])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("pem security.ssl.internal.key-password", "wrong", "key-password right"),
        ("security.ssl.internal.keystore", "/no/such", r"internal\.keystore: /no/such: cannot"),
        ("security.ssl.internal.truststore", "/no/such", r"internal\.truststore: /no/such: cannot"),
        ("security.ssl.internal.truststore-password", "x", "its password is wrong"),
        ("security.ssl.protocol", "SSLv3", "'SSLv3' is not known or no longer safe"),
        ("security.ssl.algorithms", "TLS_NO", "'TLS_NO' is not known; choose from TLS_"),
        ("security.ssl.algorithms", "TLS_AES_128_GCM_SHA256", "no cipher of TLSv1.2; with it"),
        ("security.ssl.internal.cert.fingerprint", "12:34", "flinknet checks no fingerprints"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(sets: Path, key: str, value: str, words: str) -> None:
    pem, _, key = key.rpartition(" ")
    with pytest.raises(ConfigError, match=words):
        create_tls(network_of(sets, pem=bool(pem), **{key: value}))


def test_a_comment_that_is_not_ascii_may_stand_between_certificates(
    sets: Path, tmp_path: Path
) -> None:
    settings = settings_for(sets / "ours", PASSWORD, pem=True)
    trusted = Path(settings["security.ssl.internal.truststore"]).read_text(encoding="ascii")
    noted = tmp_path / "noted.pem"
    noted.write_text(f"# Zürich\n{trusted}", encoding="utf-8")
    settings["security.ssl.internal.truststore"] = str(noted)
    create_tls(network_config(settings)[0])


def test_broken_certificates_are_reported(sets: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    network = network_of(sets, pem=True, **{"security.ssl.internal.truststore": str(broken)})
    with pytest.raises(ConfigError, match=r"truststore: .*broken\.pem: OpenSSL does not take it"):
        create_tls(network)


def test_every_cipher_of_the_table_is_one_of_openssl() -> None:
    from flinknet.runtime.tls import _CIPHERS

    assert openssl_ciphers("TLS_AES_256_GCM_SHA384") == ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in _CIPHERS:
        context.set_ciphers(openssl_ciphers(name))
        assert _CIPHERS[name] in {each["name"] for each in context.get_ciphers()}
