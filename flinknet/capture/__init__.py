"""Traces of a real Flink: bytes between two TaskManagers in, probe calls out.

The observer follows one connection without being a peer of it: it is sans-IO, believes no length,
holds no payload and never raises for what it reads. The tap (a proxy) and packet captures feed it.
Nothing here sends a message of its own.
"""

from .channels import ChannelTable, ObservedChannel
from .observer import ConnectionObserver, ConnectionSummary

__all__ = ["ChannelTable", "ConnectionObserver", "ConnectionSummary", "ObservedChannel"]
