"""Packet captures: what tcpdump or Wireshark recorded of a real Flink becomes a trace.

file ─► packets ─► TCP segments ─► connections, streams ─► ConnectionObserver ─► trace
"""
