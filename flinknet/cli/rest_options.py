"""Options about Flink's REST API that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError

if TYPE_CHECKING:
    from flinknet.capture.rest.answers import RestAnswers
    from flinknet.trace import RunManifest

TOKEN_HELP = "File whose first line is sent to --rest as a bearer token."


def read_token(token_file: str | None, rest: str | None) -> str | None:
    """The token in a file; None without one.

    Raises: ConfigError.
    """
    if token_file is None:
        return None
    if rest is None:
        raise ConfigError("--rest-token-file needs --rest")
    try:
        lines = Path(token_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--rest-token-file: {token_file}: cannot be read") from None
    token = lines[0].strip() if lines else ""
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError(f"--rest-token-file: the first line of {token_file} is not a token")
    return token


def answers_of(rest: str, token_file: str | None, save_to: Path | None = None) -> RestAnswers:
    """The answers that --rest names. Raises: ConfigError."""
    from flinknet.capture.rest.answers import answers_at

    return answers_at(rest, token=read_token(token_file, rest), save_to=save_to)


def naming(rest: str | None, token_file: str | None) -> Callable[[RunManifest], RunManifest]:
    """What puts names into the manifest of a trace; nothing without --rest.

    Raises: ConfigError; RemoteTransportError without an answer.
    """
    if rest is None:
        read_token(token_file, rest)
        return lambda manifest: manifest
    from flinknet.capture.rest.jobs import read_jobs
    from flinknet.capture.rest.names import named

    jobs = read_jobs(answers_of(rest, token_file))

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
