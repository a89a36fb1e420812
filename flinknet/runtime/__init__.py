"""The real driver: processes, sockets, clocks. One TaskManager is one process with one event loop.

Runs the same core and tasks as the simulator. The launcher spawns TaskManagers, tells them what to
deploy, and collects what they measured; every process ends with it.
"""
