"""A second model of the exchange in virtual time: arithmetic on one array, compiled by numba.

What `simulator.cluster` does with the real core, message by message in 50 µs and more each, this
does in 0.2 to 3 µs, however many channels there are: pipelined channels, local or over
connections, credit, full sockets, records that come at a rate or as fast as they are taken, back
pressure, checkpoints, debloating.
`fast_path` says what is covered; property tests compare the two. Names follow the core: a *turn* of
a TaskManager, *beats* of the flusher, readers with credit in a queue, exclusive and floating
buffers.

Passing eighty arrays to a compiled function costs a hundred times the call. So all state lies in
words of 64 bits, the memory `m`, as in C: a channel, connection, source, sink or TaskManager is the
address of its first word, and `m[channel + CREDIT]` is its field (`words`). Times are ns. Records
come as ramps: a number of them, evenly spaced between two instants.

- `words`: what stands where. `compiling`: how functions are compiled. `timetable`: what is next.
- `source`: when a source steps. Its `writer` makes buffers of records (`ramps`), which wait in a
  `subpartition`; where the `buffer_pool` has none, records wait.
  At the highest rate it steps at `full_speed`, and writes `batches`.
- `connection`: messages and credit on their way. `sockets`: what waits for one that is full.
  Without credit (`tcp_mode`) messages wait behind one that finds no buffer.
- `checkpoints`: barriers are written. `alignment`: they are aligned, or overtake data.
  `acknowledgements`: tasks have done their part.
- `debloating`: gates say how large buffers are to be.
- `sink`: buffers are taken (`input_channel`), and the `latencies` of their records counted.
- `relays`: tasks that read one exchange and write others, in a run of several (`joint_words`).
- `quiet_turns`: turns in which nothing leaves are made up for later, all at once.
- `run`: turns, one after the other. Imported only when it is needed: loading the compiler takes
  half a second.
"""
