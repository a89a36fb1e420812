"""Flink's network stack without I/O, threads, clocks or randomness: bytes and instants in, bytes
and deadlines out.

    buffers             memory
    wire                byte layouts; imports buffers
    producer, consumer  the two ends of a channel; import both, and never each other
    channel_types       the view of a subpartition that both ends share
    connection          the interface for drivers
    control_messages    messages of a connection other than buffers
    water_marks         limits on bytes that the socket has not taken
    probe               takes trace events
"""
