"""Views of `flinknet bench demo`: each demo makes a table, charts and sentences from its runs.

    shown           runs of a demo, and the view that all demos share
    links           head-of-line, timeout and wan: what settings do on one connection
    overload        back-pressure, unaligned and debloating: a consumer that cannot keep up

The scenarios stand in the command (`cli/bench_demo.py`).
"""
