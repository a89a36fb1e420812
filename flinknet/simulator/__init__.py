"""The second driver of the network stack: virtual time, links, and faults that follow from a seed.

`Scheduler` holds the time, `SimulatedLink` joins two connections, `SimulatedTaskManager` takes
turns as the runtime's event loop does, `SimulatedHosts` are those that jobs run on; a `Cluster` is
one job on them, with its `channels`, `wiring`, `stages`, `checkpoints` and `debloating`. A
`FaultPlan` says what goes wrong, `disturbances` let it happen, a `HostClock` shows the wrong time;
`checkers` watch from outside; a `CostModel` says what steps take. No socket, no clock; the same
inputs give the same trace, byte for byte. It knows nothing of recorded runs: `predict` does, and
runs clusters of its own.
"""
