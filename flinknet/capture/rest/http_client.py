"""RestClient: answers of Flink's REST API over HTTP or HTTPS, limited in time and size."""

from __future__ import annotations

import io
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from functools import partial
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from os import environ
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from flinknet.errors import ConfigError, RemoteTransportError
from flinknet.runtime.clock import monotonic_ns

from ..pem import load_authority, load_certificate

TIMEOUT_S: Final = 10.0
"""Limit for a whole answer, in seconds, from the first packet to the last byte."""

ANSWER_BYTES_MAX: Final = 32 << 20
"""Largest answer, in bytes: about 1 KB for each of a vertex's at most 32,768 subtasks."""

_NOT_UP_YET: Final = (502, 503, 504)
"""Statuses of a starting JobManager, and of a gateway without a JobManager behind it."""

_NOT_TLS: Final = (
    *("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"),
)
"""OpenSSL's reasons for an answer that is not TLS."""

_TLS_ALERT: Final = "\x15\x03"
"""First bytes of a TLS server's answer to plain HTTP."""

_TEXT_MAX: Final = 200  # characters of a header or an error that are printed

_SAFE: Final = "/?&=,:.-_~"
"""Characters that are not quoted in a path."""


class NotUpYetError(RemoteTransportError):
    """No JobManager answers now, but one may later."""


@dataclass(frozen=True, slots=True)
class RestPlace:
    """Address and credentials of Flink's REST API; files are PEM."""

    place: str  # a URL, or a directory of saved answers
    credentials: str | None = field(default=None, repr=False)  # a bearer token, or user:password
    authority: str | None = None  # None: the system's authorities, or SSL_CERT_FILE
    certificate: str | None = None  # of the client, with its key
    key: str | None = None


class RestClient:
    """Queries the API of a JobManager. Redirects are not followed, since credentials must not go to
    another host. Raises: ConfigError for a URL or a certificate that cannot be used."""

    def __init__(self, rest: RestPlace, timeout_s: float = TIMEOUT_S) -> None:
        self.url = base_url(rest.place)
        self._has_credentials = rest.credentials is not None
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json", "Connection": "close"}
        if rest.credentials is not None:
            self._headers["Authorization"] = _authorization(rest.credentials)
        self._context = _context(self.url, rest)

    def get(self, path: str) -> bytes:
        """The body of the answer to a path. Raises: RemoteTransportError without an answer within
        the limits of time and size; NotUpYetError if a JobManager may answer later."""
        until_ns = monotonic_ns() + int(self._timeout_s * 1e9)
        connection = self._connection()
        connection.response_class = partial(_TimedResponse, until_ns)  # type: ignore[assignment]
        try:
            target = urlsplit(self.url).path + quote(path, safe=_SAFE)
            connection.request("GET", target, headers=self._headers)
            with connection.getresponse() as response:
                body = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, ValueError, HTTPException) as error:
            raise self._unanswered(error) from None
        finally:
            connection.close()
        if response.status != 200:
            text = f"--rest: {self.url}{path}: {self._declined(response, body)}"
            kind = NotUpYetError if response.status in _NOT_UP_YET else RemoteTransportError
            raise kind(text)
        if len(body) > ANSWER_BYTES_MAX:
            raise RemoteTransportError(
                f"--rest: {self.url}{path}: the answer is longer than {ANSWER_BYTES_MAX >> 20} MiB"
            )
        return body

    def _connection(self) -> HTTPConnection:
        own = urlsplit(self.url)
        host, timeout_s = own.hostname or "", self._timeout_s
        if self._context is None:
            return HTTPConnection(host, own.port or 80, timeout=timeout_s)
        return HTTPSConnection(host, own.port or 443, timeout=timeout_s, context=self._context)

    def _unanswered(self, error: Exception) -> RemoteTransportError:
        kind, swapped, reason = RemoteTransportError, _swapped(self.url), _reason(error)
        is_closed = isinstance(error, ssl.SSLError | ConnectionResetError | BrokenPipeError)
        if isinstance(error, ssl.SSLCertVerificationError):
            text = _distrust(error)
        elif isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
            text = f" answers without TLS; give {swapped}"
        elif isinstance(error, BadStatusLine) and str(error).startswith(_TLS_ALERT):
            text = f" answers with TLS; give {swapped}"
        elif self._context is not None and is_closed:
            text = (
                f" refuses the connection ({reason}); if it asks for client certificates, give"
                " --rest-cert and --rest-key"
            )
        elif isinstance(error, ConnectionResetError):
            kind = NotUpYetError
            text = f" closes the connection without an answer; if it uses TLS, give {swapped}"
        elif isinstance(error, HTTPException):
            text = f" does not answer in HTTP ({reason})"
        else:
            kind = NotUpYetError
            text = (
                f" does not answer ({reason}); give the address of the JobManager's REST API, such"
                " as http://localhost:8081"
            )
        return kind(f"--rest: {self.url}{text}")

    def _declined(self, response: HTTPResponse, body: bytes) -> str:
        status = response.status
        if status in (401, 403):
            challenge = printable(response.getheader("WWW-Authenticate") or "")
            asked = f"; WWW-Authenticate: {challenge[:_TEXT_MAX]}" if challenge else ""
            schemes = {each.split()[0].lower() for each in challenge.split(",") if each.strip()}
            advice = "give --rest-token-file FILE, a file with a bearer token or user:password"
            if challenge and schemes.isdisjoint(("basic", "bearer")):
                advice = "only Basic and Bearer are supported; give an address that takes one"
            elif self._has_credentials:
                advice = "what --rest-token-file holds was refused"
            return f"access denied ({status}){asked}; {advice}"
        if 300 <= status < 400:
            target = printable(response.getheader("Location") or "another address")[:_TEXT_MAX]
            return f"redirected to {target}; give that"
        if status == 400 and b"https" in body.lower() and self._context is None:
            return f"HTTP status 400: it answers with TLS; give {_swapped(self.url)}"
        return f"HTTP status {status}"


class _TimedResponse(HTTPResponse):
    """A response that must be complete by an instant."""

    def __init__(self, until_ns: int, sock: Any, **options: Any) -> None:
        super().__init__(sock, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedBytes(sock, until_ns))


class _TimedBytes(io.RawIOBase):
    """Bytes of a socket until an instant; TimeoutError from then on."""

    def __init__(self, sock: Any, until_ns: int) -> None:
        self._sock, self._until_ns = sock, until_ns
        self._bytes: Any = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left_ns = self._until_ns - monotonic_ns()
        if left_ns <= 0:
            raise TimeoutError
        self._sock.settimeout(left_ns / 1e9)
        count: int | None = self._bytes.readinto(buffer)
        return count

    def close(self) -> None:
        self._bytes.close()
        super().close()


def base_url(text: str) -> str:
    """The address of an API without trailing slashes or a query. Raises: ConfigError."""
    try:
        parts = urlsplit(text.strip())
        host = None if parts.port == 0 else parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"--rest: {text!r} is not a URL; write http://HOST:PORT or https://HOST")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "--rest: no password in the URL, where other users of this machine can see it; write"
            " user:password into a file and give --rest-token-file FILE"
        )
    host = f"[{host}]" if ":" in host else host
    return (
        f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path.rstrip('/')}"
    )


def _authorization(credentials: str) -> str:
    if ":" in credentials:  # no token has a colon
        return f"Basic {b64encode(credentials.encode()).decode()}"
    return f"Bearer {credentials}"


def _context(url: str, rest: RestPlace) -> ssl.SSLContext | None:
    if not url.startswith("https:"):
        if rest.authority is not None or rest.certificate is not None:
            raise ConfigError(
                f"--rest-ca, --rest-cert: {url} is not an https:// URL; give {_swapped(url)}"
            )
        return None
    if rest.authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_authority(context, Path(rest.authority), prefix="--rest")
    else:
        named = environ.get("SSL_CERT_FILE")
        if named and not Path(named).is_file():
            raise ConfigError(f"SSL_CERT_FILE: {named}: there is no such file; see --rest-ca")
        context = ssl.create_default_context()
    if rest.certificate is not None:
        key = Path(rest.key or rest.certificate)
        load_certificate(context, Path(rest.certificate), key, None, prefix="--rest")
    return context


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    """Why the certificate of the server is refused, and what helps."""
    why = error.verify_message
    if error.verify_code in (9, 10):  # OpenSSL's codes for not valid yet, and for expired
        return (
            f": its certificate, or one that signed it, is not valid today ({why}); let it be"
            " renewed, and check the clock of this machine"
        )
    return (
        f": its certificate is not trusted ({why}); give a name that it has, or with --rest-ca or"
        " in SSL_CERT_FILE the authority that signed it, a PEM file"
    )


def _swapped(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text).strip()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no whole answer in time"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "connection closed").replace("_", " ").lower()
    found = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(str(found))[:_TEXT_MAX]
