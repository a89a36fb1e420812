"""What the demos of `flinknet bench demo` show, as values for the terminal and the page.

    shown           what every demo comes to, and its page; demo_console prints it
    head_of_line    the page of that demo: six places, step by step
    back_pressure, unaligned, debloating, timeout    each from its runs to its table, its charts
                    and what one sees

The runs themselves are set up by the command (`cli/demos.py`).
"""
