"""Text of sockets and files, printed lines and files of results."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import pytest

from flinknet.errors import TaskFailedError
from flinknet.job.io import WAITING_LINES_MAX, FileTextInput, SocketTextInput
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster.task_io import ProcessIO, reader_of
from flinknet.runtime.event_loop import EventLoop

pytestmark = pytest.mark.socket


def turn(loop: EventLoop) -> None:
    loop.run_once(until_ns=monotonic_ns() + 100_000_000)


def test_text_of_a_socket_comes_until_its_other_side_closes(loop: EventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = SocketTextInput("127.0.0.1", server.getsockname()[1])
        reader = reader_of(loop, text)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"one\ntwo")
        while not text.is_ended:
            turn(loop)
        reader.close()
    assert text.take(9) == ["one", "two"]
    assert text.is_exhausted


def test_a_socket_is_not_read_while_the_task_has_enough_to_do(loop: EventLoop) -> None:
    lines = 3 * WAITING_LINES_MAX
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = SocketTextInput("127.0.0.1", server.getsockname()[1])
        reader = reader_of(loop, text)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"".join(b"%012d\n" % each for each in range(lines)))
            while text.wants_data:
                turn(loop)
            received = text.received_bytes
            turn(loop)
            assert text.received_bytes == received < lines * 13
            taken: list[str] = []
            while len(taken) < lines:
                taken += text.take(lines)
                reader.pump()
                turn(loop)
        reader.close()
    assert taken == [f"{each:012}" for each in range(lines)]


def test_nobody_there_fails_the_task_and_says_what_to_do(loop: EventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = SocketTextInput("127.0.0.1", port)
    reader = reader_of(loop, text)
    while not text.is_ended:
        turn(loop)
    with pytest.raises(TaskFailedError, match=f"127.0.0.1:{port}.*refused.*start what"):
        text.take(1)
    reader.close()


def test_subtasks_share_the_lines_of_a_file(loop: EventLoop, tmp_path: Path) -> None:
    path = tmp_path / "text"
    expected = [f"line {number}" for number in range(20_000)]
    path.write_text("\n".join(expected))
    found = []
    for subtask in range(3):
        text = FileTextInput(str(path), subtask, 3)
        reader = reader_of(loop, text)
        while not text.is_exhausted:
            reader.pump()
            found += text.take(1000)
        assert not reader.is_waiting
        reader.close()
    assert found == expected


def test_a_file_that_is_not_there_fails_the_task(loop: EventLoop, tmp_path: Path) -> None:
    text = FileTextInput(str(tmp_path / "none"), 0, 1)
    reader = reader_of(loop, text)
    reader.pump()
    with pytest.raises(TaskFailedError, match="No such file"):
        text.take(1)


def test_lines_leave_together_and_files_are_whole(tmp_path: Path) -> None:
    stdout = io.StringIO()
    sink = ProcessIO(stdout)
    sink.print_line("one")
    sink.print_line("two")
    assert stdout.getvalue() == ""
    sink.flush()
    sink.flush()
    assert stdout.getvalue() == "one\ntwo\n"
    path = tmp_path / "made" / "result"
    sink.open_file(str(path))
    sink.write_file(str(path), b"a")
    sink.write_file(str(path), b"b")
    sink.close_file(str(path))
    assert path.read_bytes() == b"ab"
    with pytest.raises(TaskFailedError, match="cannot be written"):
        sink.open_file(str(path / "beneath a file"))
