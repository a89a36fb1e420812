"""Who misbehaves at the control port: the table of J cases. Each gets the reason, and its
connection ends; jobs and other connections never notice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from flinknet.plain_values import encode_message, to_plain
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.control_connection import (
    HELLO_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    ControlConnection,
)
from tests.peers.frames import HTTP, SSH, TLS_HELLO, frame

FIRST, LATER = "before the secret was shown", "after the secret was shown"


@dataclass(frozen=True)
class Case:
    """One line of the table; `why` is told to who misbehaves."""

    number: int
    when: str
    said: str
    data: bytes
    why: str


def framed(text: str | bytes) -> bytes:
    """A message on the wire, from its JSON text."""
    data = text if isinstance(text, bytes) else text.encode()
    return len(data).to_bytes(4, "big") + data


def message(name: object, body: object) -> bytes:
    """Anything in the form of a message."""
    return framed(json.dumps({"message": name, "body": body}))


def show_secret(server: ControlConnection) -> None:
    """Let a client show that it knows the secret."""
    client = ControlConnection("secret", role="client")
    for one, other in ((server, client), (client, server)):
        data = b"".join(map(bytes, one.data_to_send(now_ns=0)))
        other.receive_data(memoryview(data), now_ns=0)


def hello(token: str, *, version: str = str(messages.PROTOCOL_VERSION)) -> bytes:
    """A hello with the JSON text of a token."""
    body = f'{{"version":{version},"role":"client","token":{token}}}'
    return framed(f'{{"message":"Hello","body":{body}}}')


CANCEL = framed(encode_message(messages.JobRequest(messages.CANCEL)))
DIGITS = framed('{"message":"Heartbeat","body":{"number":' + "9" * 5000 + "}}")
HUGE = {"job": "00" * 16, "report": to_plain(messages.Report()) | {"busy_share": 10**400}}
STATE = {"attempt_id": "00" * 40, "state": "x", "error": "", "is_consequence": False, "kind": ""}
LINES = (
    (FIRST, "an HTTP request", HTTP, "too long"),
    (FIRST, "a TLS ClientHello", TLS_HELLO, "too long"),
    (FIRST, "an SSH banner", SSH, "too long"),
    (FIRST, "a frame of the data port", frame(5, bytes(2000)) + bytes(4), "not JSON"),
    (FIRST, "a pickle", framed(b"\x80\x04cos\nsystem\n."), "not JSON"),
    (FIRST, "a length of 2 GiB", b"\x7f\xff\xff\xff", "too long"),
    (FIRST, "a hello one byte too long", (HELLO_MAX_BYTES + 1).to_bytes(4), "too long"),
    (FIRST, "an empty message", framed(""), "not JSON"),
    (FIRST, "broken JSON", framed("{]"), "not JSON"),
    (FIRST, "a JSON object that is not a message", framed("{}"), "fields"),
    (FIRST, "a list", framed("[]"), "fields"),
    (FIRST, "4000 opening brackets", framed("[" * 4000), "not JSON"),
    (FIRST, "a message other than a hello", CANCEL, "not a hello"),
    (FIRST, "a hello of another protocol version", hello('"secret"', version="99"), "version 99"),
    (FIRST, "a hello with a wrong secret", hello('"guess"'), "secret"),
    (FIRST, "a hello with a non-ASCII secret", hello('"é"'), "secret"),
    (FIRST, "a hello with a lone surrogate as its secret", hello(r'"\ud800"'), "secret"),
    (FIRST, "a hello with null as its secret", hello("null"), "not of type str"),
    (FIRST, "a hello with a version of 4000 digits", hello('""', version="9" * 4000), "version 9"),
    (
        FIRST,
        "a hello with 990 nested lists as its secret",
        hello("[" * 990 + "]" * 990),
        "not JSON|not of type str",
    ),
    (FIRST, "a name with a lone surrogate", framed(r'{"message":"\ud800","body":{}}'), "not known"),
    (
        FIRST,
        "a field with a lone surrogate",
        framed(r'{"message":"Hello","body":{"\ud800":1}}'),
        "not known",
    ),
    (LATER, "an unknown message", message("os.system", {}), "not known"),
    (LATER, "a name that is a list", message(["CancelTask"], {}), "not known"),
    (LATER, "an id that is too short", message("CancelTask", {"attempt_id": "00"}), "has 40 bytes"),
    (LATER, "a message that lacks a field", message("CancelTask", {}), "missing"),
    (LATER, "a message with an extra field", message("Disconnect", {"more": 1}), "not known"),
    (
        LATER,
        "text where a number belongs",
        message("EndTaskManager", {"index": "1"}),
        "not of type int",
    ),
    (
        LATER,
        "a boolean where a number belongs",
        message("EndTaskManager", {"index": True}),
        "not of type int",
    ),
    (LATER, "a number of 5000 digits", DIGITS, "not JSON"),
    (LATER, "a number too large for a float", message("JobClosed", HUGE), "wrong"),
    (LATER, "an unknown state", message("TaskStateChanged", STATE), "wrong"),
    (LATER, "a message that is too long", (MESSAGE_MAX_BYTES + 1).to_bytes(4), "too long"),
)
CASES = [Case(number, *line) for number, line in enumerate(LINES, 1)]
