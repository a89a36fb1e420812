"""Output of the demos of `flinknet bench demo`, as values for the terminal and the page.

    shown           the output of a demo, and its page; demo_console prints it
    head_of_line    the page of this demo: six places, step by step
    back_pressure, unaligned, debloating, timeout    each makes a table, charts and a lesson from
                    its runs

The command sets up the runs (`cli/demos.py`).
"""
