"""What launcher and TaskManagers say to each other is JSON, and comes back as it was."""

from __future__ import annotations

import pickle

import pytest

from flinknet.errors import RemoteProtocolError
from flinknet.job.checkpoint_coordinator import AcknowledgeCheckpoint, TriggerCheckpoint
from flinknet.results import DebloatingSample, FillLevels, FillSample, Strangers
from flinknet.runtime import messages as say
from flinknet.runtime.control_pipe import ControlPipe, connected_pair

MESSAGES = (
    say.Bound(1),
    say.Connect({0: ("127.0.0.1", 5), 1: ("127.0.0.1", 6)}),
    say.Ready(),
    say.Start(1, 2, None, None, 3, 4),
    TriggerCheckpoint(1, 5),
    AcknowledgeCheckpoint("sink 0", 1, {}, {3: 7}, None, 4),
    say.Sample(
        1,
        2,
        b"\x00\xff",
        (say.ChannelSample(0, 5),),
        FillSample(1, FillLevels(6), True, False, True),
        {"sink 0": {"numRecordsIn": 5, "idleShare": 0.5, "isBackPressured": False}},
        {"UsedMemory": 7},
    ),
    say.Report(
        (say.ConsumerChannelReport(0, 1, 2, 3, 4, b"a", b"b", 0, 0, 0, 1.5, 9),),
        (say.ProducerChannelReport(0, 1, 2, 3, 4, 5),),
        reasons=(1, 2, 3),
        debloating=(("gate 0", (DebloatingSample(1, 2, 3, 4, 5),)),),
        strangers=Strangers(1, 2, 3),
    ),
    say.Failed("why \udc80", "TransportError"),
    say.Exit(),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_comes_as_it_was_sent(message: object) -> None:
    one, other = map(ControlPipe, connected_pair())
    one.send(message)
    received = other.receive()
    one.close()
    assert repr(received) == repr(message)  # an int is not as good as a float
    with pytest.raises(EOFError):
        other.receive()
    other.close()


class Hostile:
    """Raises in whoever unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("raise AssertionError('it was unpickled')",)


def test_nothing_is_unpickled() -> None:
    one, other = connected_pair()
    pipe = ControlPipe(other)
    one.send_bytes(pickle.dumps(Hostile()))
    with pytest.raises(RemoteProtocolError, match="no JSON"):
        pipe.receive()
    one.close()
    pipe.close()
