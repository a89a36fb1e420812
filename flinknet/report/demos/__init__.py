"""Views of `flinknet bench demo`: each demo makes a table, charts and sentences from its runs.

    shown           runs of a demo, and the view that all demos share
    head_of_line    a paused consumer and its neighbour
    back_pressure   a slow sink, and the chain before it
    wan             longer and longer round trips, with little credit and with more
    settings        timeout, unaligned and debloating: the same load under several settings

The scenarios stand in the command (`cli/bench_demo.py`).
"""
