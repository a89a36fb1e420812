"""Flink's network stack without I/O, threads, clocks or randomness: bytes and instants in, bytes
and deadlines out.

    buffers             memory
    wire                byte layouts; imports buffers
    producer, consumer  the two ends of a channel; import both, and never each other
    channel_types       the view of a subpartition that both ends share
    wiring              which subpartition of which partition each consumer reads
    connection          the interface for drivers, and limits on unsent bytes
    probe               takes trace events; encoded messages that wait to be sent
"""
