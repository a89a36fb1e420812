"""Output of `flinknet bench demo`: each demo makes a table, charts and a lesson from its runs.

    shown           types, and the page that all demos share; demo_console prints them
    head_of_line, back_pressure, checkpoints, timeout    the demos; checkpoints has two: unaligned
                    and debloating

The command sets up the runs (`cli/bench_demo.py`).
"""
