"""Traces of a real Flink: bytes between two TaskManagers in, probe calls out.

    observer                both directions of one connection become rows: the effect of each kind
                            of frame (observed_connection: state of a connection)
    frame_stream            one direction, cut anywhere, becomes frames
    channels                the channels that were observed, numbered as they appear
    recording               the run directory while it grows, and its files, one after another
    session                 a recording in progress, with its jobs, metrics and trigger
    meter                   figures that are shown meanwhile, and bounds on them
    dissector               a Wireshark dissector that uses this package's names
    tap, pcap               a proxy between TaskManagers, and packet captures, feed the observer
    sniff                   the capture program of this host, and where TaskManagers listen
    rest                    jobs and metrics from Flink's JobManager
    pem                     certificates in PEM files, for tap and rest

The observer follows one connection without being a peer of it: it is sans-IO, believes no length,
holds no payload and never raises for the bytes it reads. Nothing here sends messages of its own,
except queries to the JobManager.
"""

from .channels import ChannelTable, ObservedChannel
from .observer import ConnectionObserver

__all__ = ["ChannelTable", "ConnectionObserver", "ObservedChannel"]
