"""What happened in a recorded run: latency, throughput, backlog, credit, regimes.

Each question has a file of its own, with what it needs of a block and how its answers add up;
`one_pass` puts all of them to the blocks of a time slice at once, and `observed` gathers their
tables. What would have happened otherwise, and what to do about it, is not known here.
"""
