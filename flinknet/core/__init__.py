"""Flink's network stack without I/O, threads, clocks or randomness: bytes and instants in, bytes
and deadlines out.

`buffers` is memory, `wire` the byte layouts, which import buffers; `producer` and `consumer` import
both and never each other. Every event of note goes to the `Probe`; drivers use the methods of
`Connection` and nothing else.
"""
