"""Traces that nobody recorded: of any length, of the schema of recorded ones, with known answers.

A scenario in, a run directory out. `plan` says what is made; the law of each channel is arithmetic,
so that any stretch of time can be made by itself: events come in slices of columns, never one by
one, and all files of a run go on slice by slice (`run`). Channels keep up with their records; what
back-pressure does is for `bench` and the simulator.
"""
