"""Mutants: bugs that were put into the core and into tasks, one at a time, for the tests to find.

Each replaces a text that stands once in its file. What a mutant does is said in a word, since what
matters is who survives; one that changes nothing that could be observed does not belong here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FLINKNET = Path(__file__).parents[2] / "flinknet"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug.

    Attributes:
        path: below `flinknet`.
        before, after: what is replaced, and by what.
    """

    what: str
    path: str
    before: str
    after: str

    @property
    def module(self) -> str:
        """Name of the module."""
        return "flinknet." + self.path.removesuffix(".py").replace("/", ".")

    def applied_to(self, source: str) -> str:
        """The source with the bug in it. Raises: ValueError if it does not fit any more."""
        if source.count(self.before) != 1:
            raise ValueError(f"{self.what}: its text stands {source.count(self.before)} times")
        return source.replace(self.before, self.after)


_POOLS = "core/buffers/pools.py"
_MANAGER = "core/consumer/buffer_manager.py"
_CHANNEL = "core/consumer/input_channel.py"
_GATE = "core/consumer/input_gate.py"
_CONSUMER = "core/consumer/connection.py"
_CLIENT = "core/consumer/client_handler.py"
_BARRIERS = "core/consumer/checkpoint_barriers.py"
_TCP = "core/consumer/tcp_mode.py"
_QUEUE = "core/producer/subpartition.py"
_READER = "core/producer/view_reader.py"
_PRODUCER = "core/producer/connection.py"
_SERVER = "core/producer/server_handler.py"
_TURNS = "core/producer/request_queue.py"
_REQUESTS = "core/producer/view_requests.py"
_PARTITION = "core/producer/buffer_writing_partition.py"
_BUILDER = "core/buffers/builder.py"
_DECODER = "core/wire/response_decoder.py"
_COORDINATOR = "job/checkpoint_coordinator.py"
_TASK = "job/stream_task.py"

MUTANTS = (
    # Pools
    Mutant(
        "overdraft of one buffer too many",
        _POOLS,
        "elif self.requested_buffers < self.size_buffers + self.max_overdraft_buffers:",
        "elif self.requested_buffers <= self.size_buffers + self.max_overdraft_buffers:",
    ),
    Mutant(
        "a channel at its quota is not counted",
        _POOLS,
        "self._channels_at_quota += 1\n        return NetworkBuffer",
        "pass\n        return NetworkBuffer",
    ),
    Mutant(
        "a quota is never left",
        _POOLS,
        "self._channels_at_quota -= 1\n        if self._listeners",
        "pass\n        if self._listeners",
    ),
    Mutant(
        "a destroyed pool keeps what comes back",
        _POOLS,
        "if self.is_destroyed or self.requested_buffers > self.size_buffers:\n"
        "            self._give_back(segment)",
        "if self.requested_buffers > self.size_buffers:\n            self._give_back(segment)",
    ),
    Mutant(
        "a segment is given back twice",
        _POOLS,
        "self._free.append(segment)\n\n    @property\n    def waits_for_segment",
        "self._free.extend((segment, segment))\n\n    @property\n    def waits_for_segment",
    ),
    Mutant(
        "who waits is forgotten when the global pool gives one segment",
        _POOLS,
        "self.recycle(self._free.popleft())\n"
        "        if self._listeners and self.requested_buffers < self.size_buffers:\n"
        "            self._global.wait_for_segment(self)",
        "self.recycle(self._free.popleft())",
    ),
    Mutant(
        "who waits is forgotten when the global pool is empty",
        _POOLS,
        "if self.requested_buffers < self.size_buffers:  # it is the global pool that has none\n"
        "            self._global.wait_for_segment(self)",
        "pass",
    ),
    Mutant(
        "who waits is forgotten when a pool grows",
        _POOLS,
        "if pool.waits_for_segment:\n                self.wait_for_segment(pool)",
        "pass",
    ),
    Mutant(
        "what went back to the global pool still counts in the local one",
        _POOLS,
        "        self.requested_buffers -= 1\n        self._global.recycle_segment(segment)",
        "        self._global.recycle_segment(segment)",
    ),
    Mutant(
        "exclusive segments stay promised",
        _POOLS,
        "self._required_buffers -= len(segments)",
        "pass",
    ),
    Mutant(
        "a pool that shrinks keeps its free segments",
        _POOLS,
        "while self._free and self.requested_buffers > self.size_buffers:",
        "while False:",
    ),
    Mutant(
        "a segment that is held in advance is not counted",
        _POOLS,
        "        self.requested_buffers += 1\n        self._free.append(segment)\n        return True",
        "        self._free.append(segment)\n        return True",
    ),
    Mutant(
        "buffers that others still read come back",
        _POOLS,
        "if buffer.references == 1 and buffer.recycler is recycler:",
        "if buffer.recycler is recycler:",
    ),
    Mutant(
        "the last buffer of a channel's quota is taken, too",
        _POOLS,
        "spare = 0 if and_last else 1",
        "spare = 0",
    ),
    Mutant(
        "a destroyed pool keeps its free segments",
        _POOLS,
        "        self.is_destroyed = True\n        while self._free:\n",
        "        self.is_destroyed = True\n        while False:\n",
    ),
    # Consumer: buffers
    Mutant(
        "a floating buffer becomes exclusive",
        _MANAGER,
        "return NetworkBuffer(segment, self.pool.recycle)",
        "return NetworkBuffer(segment, self._recycler)",
    ),
    Mutant(
        "floating buffers are not given back",
        _MANAGER,
        "        self.floating_buffers -= 1\n        self.pool.recycle(self._take_last())",
        "        self.floating_buffers -= 1\n        self._take_last()",
    ),
    Mutant(
        "exclusive segments are lost at the end",
        _MANAGER,
        "        self._global_pool.recycle_exclusive_segments(exclusive)",
        "        pass",
    ),
    Mutant(
        "an exclusive segment that comes back late is lost",
        _MANAGER,
        "            self._global_pool.recycle_exclusive_segments([segment])",
        "            pass",
    ),
    Mutant(
        "a channel waits for ever after it was offered a buffer",
        _MANAGER,
        '"""The pool offers a recycled buffer; refused when nothing is short any more."""\n'
        "        self._is_waiting = False",
        '"""The pool offers a recycled buffer; refused when nothing is short any more."""\n',
    ),
    Mutant(
        "a channel does not ask again after one buffer",
        _MANAGER,
        "self._notify_credit(1 + self._request_floating() if missing > 1 else 1)",
        "self._notify_credit(1)",
    ),
    Mutant(
        "credit of a run that comes back is not announced",
        _MANAGER,
        "        if credit:\n            self._notify_credit(credit)",
        "        if credit > 1:\n            self._notify_credit(credit)",
    ),
    Mutant(
        "floating buffers are counted after they went back",
        _MANAGER,
        "floating, self.floating_buffers = self.floating_buffers, 0",
        "floating = self.floating_buffers",
    ),
    Mutant(
        "too few buffers are asked for",
        _MANAGER,
        "self.required_buffers = required = backlog_buffers + self.initial_credit",
        "self.required_buffers = required = backlog_buffers",
    ),
    Mutant(
        "a segment that comes back is free twice",
        _MANAGER,
        '        """\n        self._free.append(segment)\n        if not self.floating_buffers or',
        '        """\n        self._free += [segment, segment]\n        if not self.floating_buffers or',
    ),
    # Consumer: channels
    Mutant(
        "priority events overtake each other",
        _CHANNEL,
        "self.received.insert(position, (buffer, sequence_number))",
        "self.received.insert(0, (buffer, sequence_number))",
    ),
    Mutant(
        "a priority event waits behind data",
        _CHANNEL,
        "            if queued.data_type != _PRIORITIZED_EVENT:\n                break\n",
        "",
    ),
    Mutant(
        "credit is never put on the list",
        _CHANNEL,
        "if not before and self.connection is not None:",
        "if before and self.connection is not None:",
    ),
    Mutant(
        "credit is announced again",
        _CHANNEL,
        "credit, self.unannounced_credit = self.unannounced_credit, 0",
        "credit = self.unannounced_credit",
    ),
    Mutant(
        "credit survives the resumption of a channel without exclusive buffers",
        _CHANNEL,
        "        if self.initial_credit == 0:\n            self.unannounced_credit = 0\n",
        "",
    ),
    Mutant(
        "sequence numbers do not wrap at the consumer",
        _CHANNEL,
        "expected + 1 if expected != 0x7FFFFFFF else next_sequence_number(expected)",
        "expected + 1",
    ),
    Mutant(
        "sequence numbers do not wrap behind a run",
        _CHANNEL,
        "self.expected_sequence_number = next_sequence_number(end - 1)",
        "self.expected_sequence_number = end",
    ),
    Mutant(
        "a gate does not hear of the first buffer",
        _CHANNEL,
        "            received.append((buffer, sequence_number))\n            if len(received) == 1:",
        "            received.append((buffer, sequence_number))\n            if len(received) == 2:",
    ),
    Mutant(
        "what had arrived is not given back",
        _CHANNEL,
        "self.received.popleft()[0].recycle()",
        "self.received.popleft()",
    ),
    Mutant(
        "a blocked channel without exclusive buffers keeps the floating ones",
        _CHANNEL,
        "            if self.initial_credit == 0:\n                self.buffers.release_floating()\n",
        "",
    ),
    Mutant(
        "a backlog is not followed",
        _CHANNEL,
        "        else:\n"
        "            self._receive_event(buffer, sequence_number, backlog_buffers)\n"
        "        if backlog_buffers >= 0:\n            self.receive_backlog(backlog_buffers)",
        "        else:\n            self._receive_event(buffer, sequence_number, backlog_buffers)",
    ),
    Mutant(
        "a released channel keeps a buffer",
        _CHANNEL,
        "        if self.is_released:  # in the middle of this buffer\n            buffer.recycle()",
        "        if self.is_released:  # in the middle of this buffer\n            pass",
    ),
    # Consumer: gate and connection
    Mutant(
        "a gate counts priority channels that were read",
        _GATE,
        "            if self._priority_channels:\n                self._priority_channels -= 1\n"
        "            received",
        "            received",
    ),
    Mutant(
        "a channel loses its turn while it has more",
        _GATE,
        "            if received or channel.error is not None:\n"
        "                self._is_queued[index] = True",
        "            if channel.error is not None:\n                self._is_queued[index] = True",
    ),
    Mutant(
        "a channel that has ended is not released",
        _GATE,
        "            self._is_queued[index] = False\n        channel.release()",
        "            self._is_queued[index] = False\n",
    ),
    Mutant(
        "a gate forgets a channel behind a run",
        _GATE,
        "if not received and channel.error is None:\n            self._ready.clear()",
        "if channel.error is None:\n            self._ready.clear()",
    ),
    Mutant(
        "a channel with a priority event stands last",
        _GATE,
        "        ready.insert(self._priority_channels, channel)\n"
        "        self._priority_channels += 1\n        if self.listener",
        "        ready.append(channel)\n"
        "        self._priority_channels += 1\n        if self.listener",
    ),
    Mutant(
        "channels do not hear that their connection broke",
        _CONSUMER,
        "        for channel in self._channels.values():\n            channel.fail(error)\n",
        "        for channel in list(self._channels.values())[1:]:\n            channel.fail(error)\n",
    ),
    Mutant(
        "what came in part is lost with the connection",
        _CONSUMER,
        "        self._control.now_ns = now_ns\n        self._handler.drop()\n        loss",
        "        self._control.now_ns = now_ns\n        loss",
    ),
    Mutant(
        "one AddCredit for all channels",
        _CONSUMER,
        "        while with_credit:\n",
        "        if with_credit:\n",
    ),
    Mutant(
        "a request is not repeated",
        _CONSUMER,
        "            if channel is not None and channel.error is None:\n"
        "                self._send_request(channel)",
        "            if channel is None:\n                self._send_request(channel)",
    ),
    Mutant(
        "a closed channel is not cancelled",
        _CONSUMER,
        "                self._control.send(encoded, MessageKind.CANCEL_PARTITION_REQUEST, channel.index)",
        "                pass",
    ),
    Mutant(
        "half a buffer is not given back",
        _CLIENT,
        "        if self.buffer is not None:\n            self.buffer.recycle()\n"
        "            self.buffer = None",
        "        self.buffer = None",
    ),
    Mutant(
        "an empty buffer is not given back",
        _CLIENT,
        "            else:\n                buffer.recycle()\n                channel.receive_empty",
        "            else:\n                channel.receive_empty",
    ),
    Mutant(
        "the backlog within a run counts, not the last",
        _CLIENT,
        "channel.receive_run(buffers, backlogs[count - 1])",
        "channel.receive_run(buffers, backlogs[0])",
    ),
    Mutant(
        "reading is never resumed (tcp)",
        _TCP,
        "        if not self.wants_data:\n            self.wants_data = True",
        "        if not self.wants_data:\n            self.wants_data = False",
    ),
    Mutant(
        "what is staged is overtaken (tcp)",
        _TCP,
        "if self._staged or not self._deliver(arrived):",
        "if not self._deliver(arrived):",
    ),
    Mutant(
        "a buffer that came for what was dropped is lost (tcp)",
        _TCP,
        "        if not self._is_listening:\n            return False\n        self._is_listening",
        "        self._is_listening",
    ),
    # Barriers
    Mutant(
        "blocked channels stay blocked behind a checkpoint",
        _BARRIERS,
        "        blocked, self._blocked = self._blocked, []",
        "        blocked, self._blocked = self._blocked[1:], []",
    ),
    Mutant(
        "a channel that ends is waited for",
        _BARRIERS,
        "        self._open_channels -= 1\n        if channel in self._blocked",
        "        if channel in self._blocked",
    ),
    Mutant(
        "the barrier of a checkpoint that is over blocks its channel",
        _BARRIERS,
        "            if not barrier.is_unaligned:\n"
        "                self._gate.resume_consumption(channel)\n            return",
        "            return",
    ),
    Mutant(
        "a subsumed checkpoint is not aborted",
        _BARRIERS,
        "        if checkpoint_id > self._current_id:\n            if self.is_pending:\n"
        "                self._abort(self._current_id, AbortReason.SUBSUMED, now_ns)\n"
        "            self._begin(barrier, now_ns)",
        "        if checkpoint_id > self._current_id:\n            self._begin(barrier, now_ns)",
    ),
    # Producer: queues
    Mutant(
        "a buffer is not counted in the backlog",
        _QUEUE,
        "            self.buffers_in_backlog += 1\n        notify",
        "            pass\n        notify",
    ),
    Mutant(
        "the backlog is not lowered",
        _QUEUE,
        "                if consumer.is_buffer:\n                    self.buffers_in_backlog -= 1\n",
        "",
    ),
    Mutant(
        "sequence numbers do not wrap at the producer",
        _QUEUE,
        "        self._sequence_number = number + 1 if number != 0x7FFFFFFF else -0x80000000\n"
        "        return piece",
        "        self._sequence_number = number + 1\n        return piece",
    ),
    Mutant(
        "sequence numbers do not wrap within a run",
        _QUEUE,
        "                number = number + 1 if number != 0x7FFFFFFF else -0x80000000\n",
        "                number = number + 1\n",
    ),
    Mutant(
        "a flush is lost with two in the queue",
        _QUEUE,
        "self._flush_requested = fresh or len(queue) > 1",
        "self._flush_requested = fresh",
    ),
    Mutant(
        "the reader is not notified of a flush",
        _QUEUE,
        "if fresh and not self.is_blocked and self._listener is not None:",
        "if not fresh and not self.is_blocked and self._listener is not None:",
    ),
    Mutant(
        "priority events change places at the producer",
        _QUEUE,
        "self._queue.insert(self._priority_elements, consumer)",
        "self._queue.insert(0, consumer)",
    ),
    Mutant(
        "a priority event that left still counts",
        _QUEUE,
        "                if self._priority_elements:\n"
        "                    self._priority_elements -= 1\n",
        "",
    ),
    Mutant(
        "a barrier does not block its channel",
        _QUEUE,
        "                self.is_blocked = True\n",
        "                pass\n",
    ),
    Mutant(
        "the open buffer counts in the backlog",
        _QUEUE,
        "return max(self.buffers_in_backlog - 1, 0)",
        "return self.buffers_in_backlog",
    ),
    Mutant(
        "of whole buffers one is counted",
        _QUEUE,
        "self.buffers_in_backlog += len(slices)",
        "self.buffers_in_backlog += 1",
    ),
    Mutant(
        "a barrier that timed out stays where it was",
        _QUEUE,
        "        self._priority_elements += 1\n"
        "        if self._listener is not None and self._priority_elements == 1:",
        "        if self._listener is not None and self._priority_elements == 0:",
    ),
    Mutant(
        "a released queue keeps its buffers",
        _QUEUE,
        "            self._queue.popleft().close()\n",
        "            self._queue.popleft()\n",
    ),
    Mutant(
        "the reader is not notified of the first finished buffer",
        _QUEUE,
        "not self._flush_requested and not self.is_blocked and self._finished_buffers() == 1",
        "not self._flush_requested and not self.is_blocked and self._finished_buffers() == 2",
    ),
    Mutant(
        "the reader is not notified of the end",
        _QUEUE,
        "        notify = is_last or (",
        "        notify = not is_last and (",
    ),
    # Producer: connections
    Mutant(
        "a run costs one credit",
        _READER,
        "self.credits_available -= len(run)",
        "self.credits_available -= 1",
    ),
    Mutant(
        "credit is not cleared at the resumption",
        _READER,
        "        if self.initial_credit == 0:\n            self.credits_available = 0\n",
        "",
    ),
    Mutant(
        "credit replaces credit",
        _READER,
        "self.credits_available += credit",
        "self.credits_available = credit",
    ),
    Mutant(
        "a backlog is not announced to who has no buffers",
        _READER,
        "        return self.subpartition.backlog()",
        "        return 0",
    ),
    Mutant(
        "credit gives no turn",
        _SERVER,
        "        if not reader.is_enqueued:\n            self._queue.enqueue(reader)",
        "        pass",
    ),
    Mutant(
        "a cancelled reader is not released",
        _SERVER,
        "        if reader is not None:\n            self.release(reader)\n        else:",
        "        if reader is not None:\n            pass\n        else:",
    ),
    Mutant(
        "one reader keeps its turn",
        _TURNS,
        "                reader.is_enqueued = True\n                available.append(reader)\n"
        "            return",
        "                reader.is_enqueued = True\n                available.appendleft(reader)\n"
        "            return",
    ),
    Mutant(
        "a removed reader keeps its place",
        _TURNS,
        "            self.available.remove(reader)\n",
        "            pass\n",
    ),
    Mutant(
        "a reader without credit gets a turn",
        _TURNS,
        "if following and (reader.credits_available or following not in IS_BUFFER):",
        "if following:",
    ),
    Mutant(
        "buffers under way are lost with the connection",
        _PRODUCER,
        "        self._handler.release_all()\n"
        "        self._recycle_in_flight(self._handed_over_bytes)",
        "        self._handler.release_all()",
    ),
    Mutant(
        "buffers are given back before they were sent",
        _PRODUCER,
        "while in_flight and in_flight[0][0] <= sent_bytes:",
        "while in_flight and in_flight[0][0] <= sent_bytes + 512:",
    ),
    Mutant(
        "the last readers of a connection are not released",
        _SERVER,
        "        for reader in list(self._queue.readers.values()):\n            self.release(reader)",
        "        for reader in list(self._queue.readers.values())[1:]:\n            self.release(reader)",
    ),
    Mutant(
        "a request that waits is forgotten when its partition comes",
        _REQUESTS,
        "            refusal = self._attach(reader, indices, partition)\n"
        "        except FlinknetError as error:",
        "            refusal = None\n        except FlinknetError as error:",
    ),
    Mutant(
        "a request that waited too long is not refused",
        _REQUESTS,
        "            self._partitions.stop_waiting(partition_id, receiver_id)\n"
        "            self._refuse(receiver_id)",
        "            self._partitions.stop_waiting(partition_id, receiver_id)\n"
        "            self._waiting.pop(receiver_id)",
    ),
    # Writing
    Mutant(
        "a builder that was finished keeps its segment",
        _PARTITION,
        "            if builder is not None:\n                builder.finish(reason)\n"
        "                builder.close()\n",
        "            if builder is not None:\n                builder.finish(reason)\n",
    ),
    Mutant(
        "an open broadcast buffer is written on behind an event",
        _PARTITION,
        "        self._finish_unicast(reason)\n        self._finish_broadcast(reason)\n",
        "        self._finish_unicast(reason)\n",
    ),
    Mutant(
        "an open buffer is lost when the writer gives up",
        _PARTITION,
        "            if builder is not None:\n                builder.close()\n"
        "        self._builders = [None]",
        "            pass\n        self._builders = [None]",
    ),
    Mutant(
        "bytes are handed out twice",
        _BUILDER,
        "self.visible_bytes = self.read_bytes = end = builder.committed_bytes",
        "self.visible_bytes = end = builder.committed_bytes",
    ),
    # Wire
    Mutant(
        "a frame that ends with the read is not complete",
        _DECODER,
        "            elif stop > end:\n",
        "            elif stop >= end:\n",
    ),
    Mutant(
        "the rest of a payload is laid at its beginning",
        _DECODER,
        "self._target[filled : filled + count] = data[position : position + count]",
        "self._target[:count] = data[position : position + count]",
    ),
    Mutant(
        "a cut header is forgotten",
        _DECODER,
        "        if len(rest) < wanted:\n            return position\n        if not",
        "        if len(rest) < wanted:\n            rest.clear()\n            return position\n        if not",
    ),
    # Tasks and checkpoints
    Mutant(
        "a checkpoint is complete without the last answer",
        _COORDINATOR,
        "        if missing.issubset(self._finished):",
        "        if len(missing) <= 1:",
    ),
    Mutant(
        "a checkpoint that takes too long goes on",
        _COORDINATOR,
        "if pending is not None and now_ns >= pending.began_ns + self._timeout_ns:",
        "if pending is not None and now_ns < pending.began_ns:",
    ),
    Mutant(
        "the flusher's beat flushes nothing",
        _TASK,
        "            if output.flusher.is_due(now_ns=now_ns):\n"
        "                output.partition.flush_all()",
        "            output.flusher.is_due(now_ns=now_ns)",
    ),
    Mutant(
        "a cancelled task keeps what it was reading",
        _TASK,
        "        if self.network_input is not None:\n            self.network_input.cancel()\n",
        "",
    ),
)
