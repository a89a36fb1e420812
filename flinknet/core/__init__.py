"""Flink's network stack without I/O, threads, clocks or randomness: bytes and instants in, bytes
and deadlines out.

buffers (memory) <- wire (layouts) <- producer, consumer (the two halves; they never see each
other). Every event of note goes to the `Probe`; drivers use the five verbs of `Connection` and
nothing else.
"""
