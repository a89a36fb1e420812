"""Answers of Flink's REST API: over HTTP, or from a directory in which they were saved.

The answer to /jobs/overview is saved as jobs/overview.json, and so on: what `curl` gives, in a file
for each path. Answers to queries (`?get=`) are not saved.
"""

from __future__ import annotations

import json
import re
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from flinknet.errors import ConfigError, RemoteTransportError

from .plans import job_answer

TIMEOUT_S = 10.0

ANSWER_BYTES_MAX = 64 << 20
"""No answer about a job is longer."""

OVERVIEW = "/jobs/overview"

NOT_AS_FLINK = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What comes of reading an answer that is described otherwise than Flink does."""

_SAFE = "/?&=,:.-_~"
"""Stand in a path as they are."""

_SAVE = "`flinknet plan --rest URL --rest-save DIR`"
"""Makes a directory of saved answers."""

_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+")


class _NoRedirects(HTTPRedirectHandler):
    """A token must not go to another host, and Flink's API sends nobody elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class HttpAnswers:
    """The API of a running JobManager.

    Args:
        url: http or https, such as http://localhost:8081; that of the web interface does.
        token: sent as `Authorization: Bearer`, for a gateway in front of the API.
        save_to: directory in which answers are saved, too.

    Raises: ConfigError for what is no such URL.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        save_to: Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._url = base_url(url)
        self._token = token
        self._save_to = save_to
        self.timeout_s = timeout_s
        self._opener: OpenerDirector = build_opener(_NoRedirects)

    @property
    def name(self) -> str:
        """The URL."""
        return self._url

    def has(self, path: str) -> bool:
        """Whether there may be an answer to a path."""
        return True

    def get(self, path: str) -> Any:
        """The answer to a path, decoded.

        Raises: RemoteTransportError without an answer, or for one that is not Flink's.
        """
        headers = {"Accept": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = Request(self._url + quote(path, safe=_SAFE), headers=headers)
        try:
            with self._opener.open(request, timeout=self.timeout_s) as response:
                body: bytes = response.read(ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            raise RemoteTransportError(f"--rest: {self._url}{path}: {_declined(error)}") from None
        except (OSError, ValueError, HTTPException) as error:
            raise RemoteTransportError(
                f"--rest: {self._url} does not answer ({_reason(error)}); give the address of the"
                " JobManager's REST API, such as http://localhost:8081"
            ) from None
        if len(body) > ANSWER_BYTES_MAX:
            raise RemoteTransportError(f"--rest: {self._url}{path}: the answer is too long")
        value = _decoded(
            body, f"{self._url}{path}: the answer is not JSON, so this is not Flink's REST API"
        )
        if self._save_to is not None and "?" not in path:
            _save(self._save_to, path, body)
        return value


class SavedAnswers:
    """A directory of saved answers.

    Raises: ConfigError if it holds no list of jobs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        overview = _file_of(directory, OVERVIEW)
        if not overview.is_file():
            raise ConfigError(
                f"--rest: {directory} holds no saved answers of Flink's REST API: there is no"
                f" {overview.relative_to(directory)}; make it with {_SAVE}"
            )

    @property
    def name(self) -> str:
        """Its path."""
        return str(self._directory)

    def has(self, path: str) -> bool:
        """Whether the answer to a path was saved."""
        return _file_of(self._directory, path).is_file()

    def get(self, path: str) -> Any:
        """The answer to a path, decoded; see `HttpAnswers.get`."""
        file = _file_of(self._directory, path.partition("?")[0])
        try:
            body = file.read_bytes()
        except OSError as error:
            raise RemoteTransportError(
                f"--rest: {file}: no saved answer ({error.strerror})"
            ) from None
        return _decoded(body, f"{file} is not JSON; save the answers again with {_SAVE}")


class SavedJob:
    """One answer about a job: a saved one to /jobs/ID, or a plan of a job (see `plans`).

    Raises: ConfigError if the file is neither.
    """

    def __init__(self, file: Path) -> None:
        self.name = str(file)
        try:
            job = job_answer(file.read_text(encoding="utf-8"), file.stem)
        except OSError as error:
            raise ConfigError(f"--rest: {file}: cannot be read ({error.strerror})") from None
        except (*NOT_AS_FLINK, RecursionError):
            raise ConfigError(
                f"--rest: {file} is neither an answer of Flink's REST API about a job nor a plan of"
                " one; save it with `curl URL/jobs/ID > job.json`, or give what `flink info` prints"
            ) from None
        self._answers: dict[str, Any] = {OVERVIEW: {"jobs": [job]}, f"/jobs/{job['jid']}": job}

    def has(self, path: str) -> bool:
        """Whether it is the answer to a path."""
        return path in self._answers

    def get(self, path: str) -> Any:
        """The answer to a path. Raises: RemoteTransportError for any other."""
        if not self.has(path):
            raise RemoteTransportError(f"--rest: {self.name} has no answer to {path}")
        return self._answers[path]


RestAnswers = HttpAnswers | SavedAnswers | SavedJob
"""Where answers come from."""


def answers_at(place: str, *, token: str | None = None, save_to: Path | None = None) -> RestAnswers:
    """The answers at a URL or in a directory.

    Raises: ConfigError if it is neither.
    """
    if "://" in place:
        return HttpAnswers(place, token=token, save_to=save_to)
    if Path(place).is_file():
        raise ConfigError(f"--rest: {place} is a file; give the directory made with {_SAVE}")
    if not Path(place).is_dir():
        if _HOST_AND_PORT.fullmatch(place):
            raise ConfigError(f"--rest: {place!r} is not a URL; write http://{place}")
        raise ConfigError(
            f"--rest: {place!r} is neither a URL, such as http://localhost:8081, nor a directory"
            " with saved answers"
        )
    return SavedAnswers(Path(place))


def base_url(text: str) -> str:
    """The address of an API without anything behind it.

    Raises: ConfigError.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--rest: {text!r} is not a URL; write http://HOST:PORT or https://HOST")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("--rest: no user or password in the URL; give --rest-token-file")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _file_of(directory: Path, path: str) -> Path:
    parts = path.strip("/").split("/")
    return directory.joinpath(*parts[:-1], f"{parts[-1]}.json")


def _save(directory: Path, path: str, body: bytes) -> None:
    file = _file_of(directory, path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    except OSError as error:
        raise ConfigError(f"--rest-save: {file}: cannot be written ({error.strerror})") from None


def _decoded(body: bytes, otherwise: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RemoteTransportError(f"--rest: {otherwise}") from None


def _declined(error: HTTPError) -> str:
    if error.code in (401, 403):
        return f"access denied ({error.code}); give --rest-token-file"
    if 300 <= error.code < 400:
        return f"redirected to {error.headers.get('Location', 'another address')}; give that"
    return f"HTTP status {error.code}"


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "timed out"
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__)
