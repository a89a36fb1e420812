"""Answers of Flink's REST API: over HTTP, or from a directory in which they were saved.

Each answer is saved as `curl` prints it, in a file named after its path: /jobs/overview becomes
jobs/overview.json. Answers to queries (`?get=`) are not saved.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flinknet.errors import ConfigError, RemoteTransportError

from .http_client import ANSWER_BYTES_MAX, TIMEOUT_S, RestClient, RestPlace

VALUES_MAX = 512 << 10
"""Most objects and lists in an answer; decoded, an empty one takes 20 times its text's memory."""

OVERVIEW = "/jobs/overview"

NOT_AS_FLINK = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""Exceptions from reading an answer whose form is not Flink's."""

_SAVE = "`flinknet plan --rest URL --rest-save DIR`"
"""Command that makes a directory of saved answers."""

_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+")


class HttpAnswers:
    """The API of a running JobManager; see `answers_at`. Raises: ConfigError as `RestClient`."""

    def __init__(
        self, rest: RestPlace, *, save_to: Path | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._client = RestClient(rest, timeout_s)
        self._save_to = save_to
        self.name = self._client.url

    def has(self, path: str) -> bool:
        return True

    def get(self, path: str) -> Any:
        """The answer to a path, decoded. Raises: RemoteTransportError without an answer from Flink;
        NotUpYetError as `RestClient.get`."""
        body = self._client.get(path)
        value = _decoded(
            body, f"{self.name}{path}", ": the answer is not JSON, so this is not Flink's REST API"
        )
        if self._save_to is not None and "?" not in path:
            file = _file_of(self._save_to, path)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(body)
            except OSError as error:
                text = f"--rest-save: {file}: cannot be written ({error.strerror})"
                raise ConfigError(text) from None
        return value


class SavedAnswers:
    """A directory of saved answers. Raises: ConfigError if it has no list of jobs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.name = str(directory)
        overview = _file_of(directory, OVERVIEW)
        if not overview.is_file():
            raise ConfigError(
                f"--rest: {directory} holds no saved answers of Flink's REST API: there is no"
                f" {overview.relative_to(directory)}; make it with {_SAVE}"
            )

    def has(self, path: str) -> bool:
        return _file_of(self._directory, path).is_file()

    def get(self, path: str) -> Any:
        file = _file_of(self._directory, path.partition("?")[0])
        try:
            with file.open("rb") as opened:
                body = opened.read(ANSWER_BYTES_MAX + 1)
        except OSError as error:
            raise RemoteTransportError(
                f"--rest: {file}: no saved answer ({error.strerror})"
            ) from None
        return _decoded(body, str(file), f" is not JSON; save the answers again with {_SAVE}")


class SavedJob:
    """One answer about a job: a saved one to /jobs/ID, or a plan of a job (see `plans`). Raises:
    ConfigError if the file is neither."""

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
        return path in self._answers

    def get(self, path: str) -> Any:
        if not self.has(path):
            raise RemoteTransportError(f"--rest: {self.name} has no answer to {path}")
        return self._answers[path]


RestAnswers = HttpAnswers | SavedAnswers | SavedJob
"""A source of answers."""


def answers_at(
    rest: RestPlace, *, save_to: Path | None = None, timeout_s: float = TIMEOUT_S
) -> RestAnswers:
    """The answers at a URL, within a time each and also saved in a directory, or in a directory.
    Raises: ConfigError if it is neither."""
    place = rest.place
    if "://" in place:
        return HttpAnswers(rest, save_to=save_to, timeout_s=timeout_s)
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


def _file_of(directory: Path, path: str) -> Path:
    parts = path.strip("/").split("/")
    return directory.joinpath(*parts[:-1], f"{parts[-1]}.json")


def _decoded(body: bytes, place: str, otherwise: str) -> Any:
    if len(body) > ANSWER_BYTES_MAX or body.count(b"{") + body.count(b"[") > VALUES_MAX:
        raise RemoteTransportError(f"--rest: {place}: larger than any answer of Flink's REST API")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RemoteTransportError(f"--rest: {place}{otherwise}") from None


PLAN = "PLAN"
"""State of a job that no JobManager knows."""

_LINE = re.compile(r"\s*<[^>]*>[\s:+-]*")
"""Separator of operators in a vertex's description, which is a tree."""


def job_answer(text: str, name: str) -> dict[str, Any]:
    """The answer to /jobs/ID, from the text of a saved answer or a plan.

    Args:
        name: the job's name, if the text has none.

    Raises: KeyError, TypeError, ValueError, AttributeError or RecursionError for any other text.
    """
    begin, end = text.find("{"), text.rfind("}") + 1  # `flink info` prints a frame around it
    document = json.loads(text[begin:end] if end else text)
    plan = document.get("plan", document)
    nodes: Sequence[Mapping[str, Any]] = plan["nodes"]
    if not nodes:
        raise ValueError("it has no nodes")
    if "pact" in nodes[0]:
        nodes = _chained({int(each["id"]): each for each in nodes})
    vertices = [
        {
            "id": each["id"],
            "name": " -> ".join(filter(None, _LINE.split(_text(each).strip()))),
            "parallelism": each["parallelism"],
        }
        for each in nodes
    ]
    return {
        "jid": plan.get("jid", "0" * 32),
        "name": plan.get("name") or name,
        "state": PLAN,
        "start-time": 0,
        "vertices": vertices,
        **document,
        "plan": {**plan, "nodes": nodes},
    }


def _text(node: Mapping[str, Any]) -> str:
    return html.unescape(str(node.get("description") or node["id"]))


def _chained(operators: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Chain operators to vertices: an operator joins its input's vertex if this is its only input,
    with a forward exchange and equal parallelism."""
    nodes: dict[int, dict[str, Any]] = {}
    head_of: dict[int, int] = {}
    for number in sorted(operators):
        operator = operators[number]
        inputs: Sequence[Mapping[str, Any]] = operator.get("predecessors") or ()
        before = int(inputs[0]["id"]) if inputs else number
        if (
            len(inputs) == 1
            and inputs[0]["ship_strategy"] == "FORWARD"
            and operators[before]["parallelism"] == operator["parallelism"]
            and before in head_of
        ):
            head_of[number] = head_of[before]
            nodes[head_of[number]]["description"] += f" -> {operator['contents']}"
            continue
        head_of[number] = number
        nodes[number] = {
            "id": f"{number:032x}",
            "description": str(operator["contents"]),
            "parallelism": operator["parallelism"],
            "inputs": inputs,
        }
    for node in nodes.values():
        node["inputs"] = [
            {
                "num": at,
                "id": f"{head_of[int(each['id'])]:032x}",
                "ship_strategy": each["ship_strategy"],
            }
            for at, each in enumerate(node["inputs"])
        ]
    return list(nodes.values())
