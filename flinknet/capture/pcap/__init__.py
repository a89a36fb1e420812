"""Packet captures: what tcpdump or Wireshark recorded of a real Flink becomes a trace.

file ─► packets ─► TCP segments ─► connections, streams ─► ConnectionObserver ─► trace

    sources         bytes of a file or a pipe, decompressed
    files           packets with exact instants
    series          packets of several files, which one capture was split into
    segments        TCP out of packets
    clock           instants, where the clock of the capture was set or stood
    connections     segments by connection; who of the two ends is the producer
    streams         the bytes of one direction, in order
    importing       all of it, from a capture file to a run directory
"""
