"""The real driver: sockets, clocks, and in `cluster` the processes. One TaskManager is one process
with one event loop.

Runs the same core and tasks as the simulator.
"""
