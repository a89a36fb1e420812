"""Flink's network stack without I/O, threads, clocks or randomness: bytes and instants in, bytes
and deadlines out.

    buffers             memory
    wire                byte layouts; imports buffers
    producer, consumer  the two ends of a channel; import both, and never each other
    channel_types       a subpartition, as its reader in either of them sees it
    connection          the methods that drivers use, and nothing else
    control_messages    what either end of a connection sends in addition to buffers
    water_marks         when a connection hands over more, if the socket has not taken all
    probe               where every event of note goes
"""
