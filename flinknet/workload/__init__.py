"""What flows through the stack: when records are meant to leave, what they are made of, and who
takes them.

Seeded randomness lives here and nowhere else (besides the simulator's faults); clocks do not:
instants are arguments.
"""
