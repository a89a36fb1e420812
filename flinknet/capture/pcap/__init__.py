"""Packet captures: makes a trace from a real Flink's packets, recorded by tcpdump or Wireshark.

file ─► packets ─► TCP segments ─► connections, streams ─► ConnectionObserver ─► trace

    sources         bytes of a file or a pipe, decompressed
    files           packets with exact instants, of one file or of several
    segments        TCP out of packets
    clock           instants, corrected where the clock of the capture was set or stood still
    connections     segments by connection; which of the two ends is the producer
    streams         the bytes of one direction, in order
    importing       all of it, from a capture file to a run directory
"""
