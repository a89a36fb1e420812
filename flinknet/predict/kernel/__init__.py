"""A second model of the exchange in virtual time: arithmetic on one array, compiled by numba.

`simulator.cluster` does the same with the real core, message by message, in 50 µs and more each;
this model takes 0.2 to 3 µs, however many channels there are: pipelined channels, local or over
connections, credit, full sockets, records that come at a rate or as fast as they are taken, back
pressure, checkpoints, debloating. `fast_path` says what is covered; property tests compare the two.
Names follow the core: a *turn* of a TaskManager, *beats* of the flusher, readers with credit in a
queue, exclusive and floating buffers.

All state lies in one array of 64-bit words, since passing eighty arrays to a compiled function
costs a hundred times the call. `memory` is the table of its records, such as Channel and Sink;
`views` makes them records in Python and in compiled functions alike. In every function `m` is the
exchange. Times are ns. Records come as ramps: a number of them, evenly spaced between two instants.

- `memory`: all records. `compiling`: how functions are compiled and kept.
- `times`: what is due next, arrivals, latencies.
- `source`: steps of a source. `writer`: its records in buffers. `channel`: buffers
  that wait to be sent; at the consumer free buffers, credit, gates.
- `connection`: messages and credit on their way, and full sockets. `sink`: buffers taken, and their
  size announced.
- `checkpoints`: barriers written, aligned, overtaking; acknowledgements.
- `run`: turns, one after the other, and tasks that read one exchange and write others, in a run of
  several; imported only when needed, since loading the compiler takes half a second.
"""

DONE, TOO_LONG, CHECKPOINT_EXPIRES, ANSWER_MISSING, ROOM_MISSING = range(5)
"""Ends of a run; all but DONE are for another run, or for the simulator, to answer."""

NEVER = 2**62
DATA, RECOVERY, END_OF_DATA, END_OF_PARTITION, BARRIER, PRIORITY_BARRIER, NOTHING = range(7)
"""Kinds of messages. An EndOfPartition is sent when every channel of its source has acknowledged
the end of data. A PRIORITY_BARRIER is an unaligned one, which overtakes data."""

RESUME, ACKNOWLEDGE, CANCEL, BUFFER_SIZE = -1, -2, -3, -4
"""Messages of a consumer besides credit; a new buffer size is sent as BUFFER_SIZE less the size."""

RUNNING, AWAITING_ACKNOWLEDGEMENT, FINISHED = range(3)
"""States of a source."""

NOWHERE, BEFORE_TAIL, BEHIND_TAIL = range(3)
"""Places of a barrier: in front of the event at the tail if there is one, or behind it."""

IS_LISTENING, HAS_BUFFER = 1, 2
"""Without credit: a connection waits for a buffer, or has been given one."""
