"""What happened in a recorded run: latency, throughput, backlog, credit, regimes.

Each question has a file of its own, with what it needs of a block and how its answers add up.
`time_slices` cuts runs by events, and `one_pass` puts all questions to the blocks of a slice at
once; for regimes it has them `set_aside`, and read beyond the slice where that is needed
(`widening`). `tree` merges the answers of all slices, `observed` gathers the tables, and
`summaries` makes the parts of an answer from their rows. What would have happened otherwise, and
what to do about it, is not known here.
"""
