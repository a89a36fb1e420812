"""The real driver: sockets, clocks, and in `cluster` the processes. One TaskManager is one process
with one event loop, and a thread (task_thread) for each task that calls functions of a program.

Runs the same core and tasks as the simulator.
"""
