"""The second driver of the network stack: virtual time, links, and faults that follow from a seed.

`Scheduler` holds the time, `SimulatedLink` joins two connections, `SimulatedTaskManager` takes
turns as the runtime's event loop does, `Cluster` puts them together, `checkers` watch from
outside; what steps take says a `CostModel`. No socket, no clock; the same inputs give the same
trace, byte for byte. Recorded runs are known to `predict` only, which runs clusters, too.
"""
