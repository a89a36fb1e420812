"""Counts the words that come over a socket: `nc -lk 9999` on one side, this on the other."""

from __future__ import annotations

from flinknet.graph import StreamExecutionEnvironment


def tokenize(line: str) -> list[tuple[str, int]]:
    """Every word of a line, once for each time it stands there."""
    return [(word, 1) for word in line.lower().split()]


def word_of(pair: tuple[str, int]) -> str:
    return pair[0]


def main(env: StreamExecutionEnvironment, host: str = "127.0.0.1", port: str = "9999") -> None:
    env.set_parallelism(2)
    env.socket_text_stream(host, int(port)).flat_map(tokenize).key_by(word_of).sum(1).print()
    env.execute("Socket Word Count")
