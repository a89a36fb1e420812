"""Options for Flink's REST API that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError

if TYPE_CHECKING:
    from flinknet.capture.rest.answers import RestAnswers
    from flinknet.capture.rest.http_client import RestPlace
    from flinknet.trace import RunManifest

REST_FILES = ("rest-token-file", "rest-ca", "rest-cert", "rest-key")
"""Names of the options of `rest_files_options`, for sections of help."""

_HELP = (
    "File whose first line is sent to --rest: a bearer token, or user:password.",
    "PEM file: the authority that signed the certificate of --rest. [default: those of the system,"
    " or SSL_CERT_FILE]",
    "PEM file: a client certificate for --rest.",
    "PEM file: the key of --rest-cert. [default: in the file of --rest-cert]",
)


@dataclass(frozen=True, slots=True)
class RestFiles:
    """Files with credentials and certificates for --rest; None where not given."""

    token_file: str | None
    ca: str | None
    cert: str | None
    key: str | None

    def place(self, rest: str | None) -> RestPlace | None:
        """Address and credentials of the API; None without --rest.

        Raises: ConfigError.
        """
        given = zip(REST_FILES, (self.token_file, self.ca, self.cert, self.key), strict=True)
        if rest is None:
            for option, value in given:
                if value is not None:
                    raise ConfigError(f"--{option} needs --rest")
            return None
        if self.key is not None and self.cert is None:
            raise ConfigError("--rest-key needs --rest-cert")
        from flinknet.capture.rest.http_client import RestPlace

        return RestPlace(rest, _credentials(self.token_file), self.ca, self.cert, self.key)


def rest_files_options(command: Any) -> Any:
    """Add the options of `RestFiles` to a command, which gets them as `rest_files`."""

    @wraps(command)
    def called(*args: Any, **values: Any) -> Any:
        files = [values.pop(name.replace("-", "_")) for name in REST_FILES]
        return command(*args, rest_files=RestFiles(*files), **values)

    for name, text in reversed(list(zip(REST_FILES, _HELP, strict=True))):
        called = click.option(f"--{name}", metavar="FILE", help=text)(called)
    return called


def _credentials(token_file: str | None) -> str | None:
    """The token or user:password in a file; None for None. Raises: ConfigError."""
    if token_file is None:
        return None
    try:
        lines = Path(token_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--rest-token-file: {token_file}: cannot be read") from None
    found = lines[0].strip() if lines else ""
    if not found or not found.isprintable() or not (found.isascii() or ":" in found):
        raise ConfigError(
            f"--rest-token-file: the first line of {token_file} is neither a token nor"
            " user:password"
        )
    return found


def answers_of(rest: str, files: RestFiles, save_to: Path | None = None) -> RestAnswers:
    """The source of answers that --rest names. Raises: ConfigError."""
    from flinknet.capture.rest.answers import answers_at

    place = files.place(rest)
    assert place is not None
    return answers_at(place, save_to=save_to)


def naming(rest: str | None, files: RestFiles) -> Callable[[RunManifest], RunManifest]:
    """A function that adds the job's names to a manifest; it does nothing without --rest.

    Raises: ConfigError; RemoteTransportError without an answer.
    """
    if rest is None:
        files.place(rest)
        return lambda manifest: manifest
    from flinknet.capture.rest.jobs import read_jobs
    from flinknet.capture.rest.names import named

    jobs = read_jobs(answers_of(rest, files))

    def describe(manifest: RunManifest) -> RunManifest:
        found = named(manifest, jobs)
        if found is manifest:
            names = ", ".join(each.name for each in jobs) or "none"
            raise ConfigError(
                f"--rest: the job in the trace is none of those at {rest} ({names}); give the REST"
                " API, or the saved answers, of the cluster on which it was recorded"
            )
        return found

    return describe
