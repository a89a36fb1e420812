"""The words of what joins the exchanges of a job, each of which has its own memory. Word 0 is never
used."""

from __future__ import annotations

# A relay is a task that reads one exchange and writes others: its exchange, its sink and its
# TaskManager there; how many records it has taken and will take in all, the channels of those it
# took, and its first link; since when it is held up, and up to where its barriers are passed on.
(
    READS,
    READING_SINK,
    READING_TASK_MANAGER,
    TAKEN_RECORDS,
    ALL_RECORDS,
    TAKEN_FROM,
    FIRST_LINK,
    HELD_UP_NS,
    SEEN_BARRIERS,
) = range(9)
RELAY_WORDS = 9
# A link of a relay: the exchange it writes, its source and its TaskManager there; channels of
# successive records, how many, and which is next; how many have been written after each record
# taken; when its data ends at the earliest, and how long after its last record; since when its
# writer waits, NEVER while it does not, and how long it has waited; of each channel, where the
# arrivals end that are withheld meanwhile; the relay, and its next link.
(
    WRITES,
    WRITING_SOURCE,
    WRITING_TASK_MANAGER,
    ROUTES,
    ROUTES_COUNT,
    NEXT_ROUTE,
    WRITTEN_AFTER,
    ENDS_FROM_NS,
    ENDS_AFTER_NS,
    WAITS_SINCE_NS,
    WAITED_NS,
    WITHHELD,
    LINK_RELAY,
    NEXT_LINK,
) = range(14)
LINK_WORDS = 14
EXCHANGES, EXCHANGE_AT = 1, 2  # how many there are, and where the words and numbers of each begin
