"""The kernel's memory: every record of a run is a class here, and each of its words a line with its
meaning. Layout, kernel and results read this table; `repr` of a record shows its words.

Lengths are bytes, and instants ns. A queue is a list with two counters, whose lower bits are places
in it. A mask is a power of two, less one. Word 0 is never used, so that 0 is no address.
"""

from __future__ import annotations

from .views import List, Rows, View, word

Timetable = List[int]


class Exchange(View):
    """An exchange: numbers that stay in a run, numbers that the run counts, and its parts."""

    task_managers: int = word("number of TaskManagers")
    timeout_ns: int = word("buffer timeout")
    period_ns: int = word("period of a flusher")
    record_bytes: int = word("length of a record")
    segment_bytes: int = word("length of a segment")
    segment_bits: int = word("binary logarithm of that length")
    exclusive_buffers: int = word("exclusive buffers of a channel")
    quota_buffers: int = word("buffers that a channel may have at the sender")
    header_bytes: int = word("length of a buffer's header")
    recovery_bytes: int = word("length of an EndOfOutputChannelState")
    end_of_data_bytes: int = word("length of an EndOfData")
    end_of_partition_bytes: int = word("length of an EndOfPartition")
    barrier_bytes: int = word("length of a barrier")
    batch_bytes: int = word("bytes that a connection hands over at once")
    batch_records: int = word("records that a source takes at once")
    receive_bytes: int = word("bytes that are read from a socket at once")
    steps_per_turn: int = word("steps of a task in one turn")
    busy_ns: int = word("work for which a sink keeps its loop; longer work ends the turn")
    latency_ns: int = word("time that messages are on their way")
    back_ns: int = word("time that messages of consumers are on their way")
    sleeps_after_ns: int = word("time without a turn after which a loop sleeps")
    wake_ns: int = word("mean time until a sleeping loop takes a message; 0: at once")
    receive_ns: int = word("cost of receiving a message")
    send_ns_per_message: float = word("cost of sending a message")
    send_ns_per_byte: float = word("cost of a byte of it")
    emit_ns_per_record: float = word("cost of writing a record")
    ring_mask: int = word("mask of a channel's queue of messages")
    boundaries_mask: int = word("mask of a channel's queue of boundaries")
    link_bytes: int = word("bytes that a socket holds")
    high_bytes: int = word("unsent bytes above which a connection hands over no more")
    low_bytes: int = word("unsent bytes below which it does again")
    narrow_bytes: int = word("room in a socket below which it has to be looked at")
    steps_at_records: int = word("whether sources have a step for each record")
    is_max_rate: int = word("whether sources write as fast as they can")
    is_disturbed: int = word("whether the machine keeps TaskManagers from their work")
    without_credit: int = word("whether flow control is that of Flink before 1.5")
    counted_from_ns: int = word("begin of the time that counts")
    counted_to_ns: int = word("end of the time that counts")
    turns_max: int = word("turns after which the run ends")
    has_barriers: int = word("whether there are checkpoints")
    is_unaligned: int = word("whether barriers overtake data from the start")
    is_blocking: int = word("whether a barrier blocks its channel until all have come")
    interval_ns: int = word("time between checkpoints")
    expires_ns: int = word("time that a checkpoint may take")
    aligned_timeout_ns: int = word("time after which aligned barriers overtake data; 0 for never")
    debloat_ns: int = word("period in which gates are looked at; 0 for never")
    target_ms: int = word("time in which what is under way shall be consumed")
    smallest_bytes: int = word("smallest size of a buffer")
    newest_share: float = word("weight of a new size in the mean of sizes")
    threshold_percent: int = word("least change of the size that is announced")

    turns: int = word("turns so far")
    turns_asked: int = word("requests for turns so far")
    turn_ns: int = word("begin of the turn")
    passed_ns: int = word("instant of the last turn of the coordinator or a timer")
    passed_asked: int = word("number of its request; earlier requests for this instant have passed")
    has_sent: int = word("whether the TaskManager has sent anything in its turn")
    has_delivered: int = word("without credit: whether a message has found its buffer in the turn")
    resumed_ns: int = word("instant at which a writer last went on that had waited")
    ended: int = word("end of the run: DONE, or why it has to be run otherwise")
    last_ns: int = word("instant at which the last record was taken")
    messages: int = word("data buffers that were sent")
    local_messages: int = word("those of them within a TaskManager")
    backlog_total: int = word("sum of their backlogs")
    backlog_max: int = word("largest backlog")
    credits: int = word("credit that was announced")
    full_sockets: int = word("requests of a connection that had unsent bytes")
    stops: int = word("without credit: how often a socket was not read any more")
    next_checkpoint_ns: int = word("begin of the next checkpoint")
    checkpoint: int = word("number of the last checkpoint")
    is_pending: int = word("whether it is under way")
    began_ns: int = word("its begin")
    unconfirmed: int = word("answers that it lacks")
    answers_behind: int = word("answers that a checkpoint needs of the exchanges behind this one")
    overtaken_bytes: int = word("bytes that its barriers have overtaken")
    was_unaligned: int = word("whether any have")
    triggered: int = word("checkpoints that were begun")
    completed: int = word("checkpoints that were completed")
    processed_bytes: int = word("bytes that were read while they were aligned")
    unaligned_total: int = word("completed ones in which barriers overtook data")
    overtaken_total: int = word("bytes that these overtook")
    overtaken_max: int = word("most that one of them overtook")

    wakes: Timetable = word("turns of TaskManagers, the coordinator and timers")
    managers: Rows[TaskManager] = word("TaskManagers, the coordinator, and debloating's timers")
    channels_count: int = word("number of channels")
    channels: Rows[Channel] = word("channels")
    sources_count: int = word("number of sources")
    sources: Rows[Source] = word("sources")
    sinks_count: int = word("number of sinks")
    sinks: Rows[Sink] = word("sinks")
    latencies: Histogram = word("latencies of records")
    densities: List[float] = word("changes of the density of latencies at each bucket")
    checkpoint_times: Histogram = word("durations of checkpoints")
    start_delays: Histogram = word("times from the begin of a checkpoint to a sink's first barrier")
    alignments: Histogram = word("times from a sink's first barrier to its last one")
    travels: Histogram = word("times of barriers on their way")


class Histogram(View):
    """Values in the buckets of `histogram.LogLinearHistogram`."""

    count: int = word("number of values")
    total_ns: int = word("their sum")
    smallest_ns: int = word("the smallest; NEVER if there is none")
    largest_ns: int = word("the largest")
    counts: List[float] = word("values in each bucket")


class Ramp(View):
    """Records that came evenly spaced."""

    records: int = word("number of records")
    first_ns: int = word("instant of the first")
    last_ns: int = word("instant of the last")


class Message(View):
    """A message that waits to be read."""

    kind: int = word("kind")
    records: int = word("records that end in it")
    is_floating: int = word("whether its buffer is a floating one; of a local one, taken whole")
    size: int = word("bytes")


class Barrier(View):
    """A barrier that a task passes on."""

    at_ns: int = word("instant at which it does")
    began_ns: int = word("begin of the checkpoint")
    is_overtaking: int = word("whether it overtakes data")


class Channel(View):
    """A channel; first the words that each record needs."""

    source: Source = word("source that writes it")
    place: int = word("its place among the source's channels")
    ramp: Ramp = word("arrivals: where they stand")
    ramp_end: Ramp = word("end of the arrivals")
    position: int = word("records of the ramp that have come")
    emitted: int = word("bytes written so far")
    polled: int = word("bytes that have left the subpartition")
    head: int = word("segments that have left the first stretch")
    segments_from: int = word("byte at which this stretch begins")
    segments: int = word("data buffers in the subpartition")
    elements: int = word("data buffers and events in the subpartition")
    is_available: int = word("whether its reader has something to read")
    front_event: int = word("whether the event in front is still there")
    tail_event: int = word("whether the event at the tail is there")
    has_priority_barrier: int = word("whether an unaligned barrier is there")
    barrier_place: int = word("place of an aligned barrier")
    boundaries: List[int] = word("queue of the bytes behind which barriers closed segments")
    boundaries_begin: int = word("its begin")
    boundaries_end: int = word("its end")
    is_blocked: int = word("whether an event blocks what is behind it")
    flush_requested: int = word("whether the open segment is to leave")
    connection: Connection = word("its connection; none for a local channel")
    is_notified: int = word("whether the connection has been notified")
    is_enqueued: int = word("whether the reader waits for its turn")
    credit: int = word("credit")
    opens_ramp: Ramp = word("ramp of the record that opens the next segment")
    opens_base: int = word("records before this ramp")
    opens_record: int = word("number of that record")
    open_from: int = word("byte at which the open segment begins")
    is_taken_whole: int = word("whether the last buffer polled has left the subpartition")
    lent_buffers: int = word("buffers out of the subpartition that are still in use")
    segments_before: int = word("data buffers before the aligned barrier")
    is_finished: int = word("whether the source has ended")
    ring: Rows[Message] = word("queue of its messages at the consumer")
    sent: int = word("messages sent")
    received: int = word("messages received")
    consumed: int = word("messages consumed")
    sink: Sink = word("sink that reads it")
    free_exclusive: int = word("free exclusive buffers")
    free_floating: int = word("free floating buffers")
    required: int = word("buffers that it needs")
    is_waiting: int = word("whether it waits for a floating buffer")
    unannounced: int = word("credit to be announced")
    is_queued: int = word("whether its gate is to read it")
    is_released: int = word("whether it has ended")
    done_ramp: Ramp = word("ramp of the next record to be counted")
    done_position: int = word("place of this record in it")
    counted_ramp: Ramp = word("first ramp that counts")
    counted_ramp_end: Ramp = word("end of those that count")
    departures: List[int] = word("where to note when its next record is done with; 0 for nowhere")
    channel_bytes: int = word("bytes read by the task")
    closed_segments: int = word("data buffers that barriers have closed")
    is_barrier_received: int = word("whether an unaligned barrier waits to be read")
    barrier_behind: int = word("number of messages that came before it")
    is_missing: int = word("whether its barrier is missing in the sink's checkpoint")
    counted_from_bytes: int = word("bytes read when the sink took that checkpoint")
    is_counted: int = word("whether what is read belongs to that checkpoint")
    buffer_bytes: int = word("size of the next buffers")
    open_until: int = word("byte at which the open buffer is full")
    to_announce: int = word("size that waits to be announced; 0 for none")
    bytes_before: int = word("bytes before the aligned barrier")
    has_announcement: int = word("whether the event to be read announces an aligned barrier")
    taken: int = word("records taken and not written yet")
    saved_ramp: Ramp = word("ramp of the arrivals before these were taken")
    saved_position: int = word("position before these were taken")
    waiting_until: int = word("byte up to which it is to be written when there are buffers")
    travelled: int = word("time that its barrier travelled, and 1; 0 while it is on its way")
    last_staged: int = word("number of its last message that waited for the socket, from 1")


class Connection(View):
    """A TCP connection between two TaskManagers."""

    upstream: TaskManager = word("TaskManager of the producers")
    upstream_place: int = word("its place among that one's ends")
    downstream: TaskManager = word("TaskManager of the consumers")
    downstream_place: int = word("its place among that one's ends")
    slots_mask: int = word("mask of the queues of messages")
    width_mask: int = word("mask of the queue of readers")
    readers: List[Channel] = word("queue of readers that wait for their turn")
    readers_begin: int = word("its begin")
    readers_end: int = word("its end")
    notified: List[Channel] = word("channels whose readers may have something to send")
    notified_count: int = word("their number")
    down: Rows[Sent] = word("queue of messages on their way to the consumers")
    down_begin: int = word("its begin")
    down_end: int = word("its end")
    pieces: int = word("messages handed over at once count as a piece; pieces so far")
    up: Rows[Said] = word("queue of messages on their way back")
    up_begin: int = word("its begin")
    up_end: int = word("its end")
    creditors: List[Channel] = word("channels that have credit to announce")
    creditors_count: int = word("their number")
    control: Rows[Said] = word("messages besides credit that are to be sent back")
    control_count: int = word("their number")
    unread_bytes: int = word("bytes sent that have not been read")
    sent_bytes: int = word("bytes handed over so far")
    staged: Rows[Staged] = word("queue of messages whose segments wait for the socket")
    staged_begin: int = word("its begin")
    staged_end: int = word("its end")
    is_pressed: int = word("whether any wait, or nothing is handed over")
    is_unwritable: int = word("whether nothing is handed over")
    undelivered: int = word("without credit: the first message read that has not been delivered")
    waits_for_buffer: int = word("IS_LISTENING, HAS_BUFFER or 0")
    is_due: int = word("whether what waits can be delivered")


class Sent(View):
    """A message on its way to a consumer."""

    channel: Channel = word("its channel")
    backlog: int = word("backlog; without credit: records")
    size: int = word("bytes with the header")
    piece: int = word("number of its piece")
    arrives_ns: int = word("instant at which it arrives")
    kind: int = word("kind")


class Said(View):
    """A message to a producer, on its way or to be sent."""

    channel: Channel = word("its channel")
    says: int = word("credit, or RESUME, ACKNOWLEDGE, CANCEL or BUFFER_SIZE")
    arrives_ns: int = word("instant at which it arrives, on its way")


class Staged(View):
    """Messages whose segments come back when a socket has taken them."""

    end_bytes: int = word("bytes up to their end, of all that the connection has sent")
    channel: Channel = word("their channel")
    segments: int = word("number of segments")


class Source(View):
    """A task that writes the exchange."""

    outputs: List[Channel] = word("its channels")
    outputs_count: int = word("their number")
    end_ns: int = word("end of its data")
    pool_buffers: int = word("buffers of its pool")
    overdraft_buffers: int = word("overdraft of its pool")
    flush_ns: int = word("next beat of its flusher")
    again_ns: int = word("instant of its next step")
    idle_seen_ns: int = word("idle time of its TaskManager at its last step")
    state: int = word("RUNNING, AWAITING_ACKNOWLEDGEMENT or FINISHED")
    unacknowledged: int = word("channels that have not acknowledged the end of data")
    records_due: Timetable = word("next record of each channel")
    segments_due: Timetable = word("record of each channel that opens its next segment")
    all_segments: int = word("data buffers in its subpartitions")
    all_elements: int = word("data buffers and events in its subpartitions")
    available: int = word("channels whose reader has something to read")
    lent: int = word("buffers out of its subpartitions that are still in use")
    at_quota: int = word("channels that have as many buffers as they may")
    waits_at: int = word("place of the channel that waits for a buffer, from 1; 0 for none")
    has_waited: int = word("whether it waited when it last wanted a buffer")
    has_ended: int = word("whether all of its records have been taken")
    most_records: int = word("records of a channel above which they are no single batch")
    touched: List[Channel] = word("channels of which records were taken")
    touched_count: int = word("their number")
    next_barrier: Barrier = word("next barrier to pass on, where no coordinator asks for it")
    barriers_end: Barrier = word("end of these")
    has_to_checkpoint: int = word("whether it has barriers to write at the end of a record")
    written_ns: int = word("instant at which it wrote its last barriers")
    is_watched: int = word("whether barriers that may time out have not all left")
    times_out_ns: int = word("instant at which they do")
    link: Link = word("its link; none where no relay writes it")
    owes_from: Barrier = word("next barrier when the checkpoint began that waits for it, or none")
    batch: List[int] = word("highest rate: records of the next batch for each channel")
    batches_end: int = word("highest rate: address of the end of the batches")


class Sink(View):
    """A task that reads the exchange."""

    inputs: List[Channel] = word("its channels")
    inputs_count: int = word("their number")
    open_inputs: int = word("channels that have not ended")
    consume_ns: int = word("cost of a record")
    gate_mask: int = word("mask of its queues of channels")
    ready: List[Channel] = word("queue of channels that can be read")
    ready_begin: int = word("its begin")
    ready_end: int = word("its end")
    priorities: List[Channel] = word("queue of channels with unaligned barriers or announcements")
    priorities_begin: int = word("its begin")
    priorities_end: int = word("its end")
    listeners: List[int] = word("queue of channels, without credit connections, without a buffer")
    listeners_begin: int = word("its begin")
    listeners_end: int = word("its end")
    pool_free: int = word("free floating buffers")
    held: Channel = word("channel of the buffer that the task works on")
    is_held_floating: int = word("whether this is a floating one")
    busy_until_ns: int = word("end of its work")
    mail_ns: int = word("instant at which it reads barriers while it works; 0 for none")
    recovered: int = word("channels that have told their recovery")
    read_bytes: int = word("bytes read")
    confirmed: int = word("last checkpoint that it has confirmed")
    is_aligning: int = word("whether it waits for barriers")
    has_barrier: int = word("whether one has come")
    is_overtaking: int = word("whether they overtake data")
    is_triggered: int = word("whether the checkpoint has been taken")
    deadline_ns: int = word("instant at which the alignment times out")
    begun_ns: int = word("instant of the first barrier")
    begun_bytes: int = word("bytes read by then")
    start_delay_ns: int = word("time from the begin of the checkpoint to the first barrier")
    to_align: int = word("barriers that are to come")
    aligned: int = word("barriers that have come")
    blocked: List[Channel] = word("channels that are blocked")
    blocked_count: int = word("their number")
    announced: List[Channel] = word("channels whose barriers are announced")
    announced_count: int = word("their number")
    counted_bytes: int = word("bytes that the barriers have overtaken")
    alignments: Barrier = word("where to note the next barrier that it passes on")
    alignments_end: Barrier = word("end of the room for these")
    finished_alignments: int = word("checkpoints that it has aligned")
    seen_alignments: int = word("those when the checkpoint began that waits for it")
    owes_alignment: int = word("whether a checkpoint of the job waits for it")
    idle_since_ns: int = word("begin of the time without data; -1 while there is some")
    idle_before_ns: int = word("time without data before")
    marked_ns: int = word("instant at which that last changed")
    seen_ns: int = word("debloating: instant of the last look")
    seen_rate: int = word("debloating: bytes per second at the last look")
    seen_bytes: int = word("debloating: bytes read at the last look")
    seen_idle_ns: int = word("debloating: time without data at the last look")
    wanted_bytes: float = word("debloating: mean buffer size")
    announced_bytes: int = word("debloating: buffer size announced last")
    relay: Relay = word("its relay; none where it writes nothing")
    is_held_up: int = word("whether its writers wait for buffers")
    took: Channel = word("channel of the buffer that it took last")
    took_records: int = word("records of this buffer")
    took_ns: int = word("instant at which it was taken")
    has_taken: int = word("whether these records are still to be handed on")


class TaskManager(View):
    """A TaskManager; behind them the coordinator, then a timer of debloating for each of them."""

    number: int = word("place in the timetable of turns")
    asked: int = word("number of its request for the next turn")
    free_since_ns: int = word("end of its last turn")
    idle_ns: int = word("time between its turns so far")
    sleeps: int = word("times that a message woke its loop")
    own_sources: List[Source] = word("its sources")
    own_sources_count: int = word("their number")
    own_sinks: List[Sink] = word("its sinks")
    own_sinks_count: int = word("their number")
    has_local_channels: int = word("whether a channel begins and ends in it")
    ends: Rows[End] = word("its ends of connections")
    arrivals: Timetable = word("what arrives next at each end")
    unsent: Timetable = word("0 for an end that has something to send")
    later_ns: int = word("instant for which it asked before it asked for an earlier one")
    later_asked: int = word("number of that request")
    latest_ns: int = word("instant for which it asked before that")
    latest_asked: int = word("number of that request")
    preemption: Preemption = word("next time that it is kept from its work")
    preemptions_end: Preemption = word("end of these")


class End(View):
    """An end of a connection."""

    connection: Connection = word("its connection")
    is_upstream: int = word("whether it is the producers' end")


class Preemption(View):
    """A time in which the machine keeps a process from its work."""

    starts_ns: int = word("its begin")
    length_ns: int = word("its length")


class Job(View):
    """A job of several exchanges."""

    exchanges: List[Exchange] = word("exchanges")
    exchanges_count: int = word("their number")


class Relay(View):
    """A task that reads one exchange and writes others."""

    exchange: Exchange = word("exchange that it reads")
    sink: Sink = word("its sink there")
    task_manager: TaskManager = word("its TaskManager there")
    taken_records: int = word("records that it has taken")
    all_records: int = word("records that it will take in all")
    taken_from: List[Channel] = word("channels of these, one by one")
    links: List[Link] = word("its links")
    links_count: int = word("their number")
    held_up_ns: int = word("begin of the time in which it is held up")
    seen_barriers: Barrier = word("its sink's first barrier that is not passed on")


class Link(View):
    """An exchange that a relay writes."""

    exchange: Exchange = word("exchange")
    source: Source = word("its source there")
    task_manager: TaskManager = word("its TaskManager there")
    routes: List[Channel] = word("channels of successive records, over and over")
    routes_count: int = word("their number")
    next_route: int = word("place of the next one")
    written_after: List[int] = word("records written after each record taken")
    ends_from_ns: int = word("earliest end of its data")
    ends_after_ns: int = word("time from its last record to the end of its data")
    waits_since_ns: int = word("begin of the time in which its writer waits, or NEVER")
    withheld: List[Ramp] = word("end of the arrivals of each channel that are withheld meanwhile")
    relay: Relay = word("its relay")


FIRST = 1
"""Address of the first record, the job of a run."""

NO_CHANNEL, NO_MESSAGE = Channel(None, 0), Message(None, 0)
NO_BARRIER = Barrier(None, 0)
