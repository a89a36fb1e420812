-- Wireshark dissector for the data-port protocol of Apache Flink (credit-based flow control).
--
-- Written by `flinknet trace dissector`. Use it once:   tshark -X lua_script:flink.lua -r capture.pcap
-- or put it into Wireshark's folder of personal Lua plugins (Help > About > Folders).
-- Connections are found by their magic number, whatever their port. Where the port is known for some
-- other protocol, add   -o tcp.try_heuristic_first:TRUE   or use "Decode As". Filters: flink.id == 0,
-- flink.receiver == 01:02:…, flink.backlog > 0, flink.credit, flink.checkpoint_id == 7.

local MAGIC = 0xbadc0ffe
local HEADER_BYTES = 9
local LONGEST_FRAME_BYTES = 256 * 1024 * 1024

local messages = {
@MESSAGES@
}
local data_types = {
@DATA_TYPES@
}
local events = {
@EVENTS@
}
local checkpoint_kinds = {
@CHECKPOINT_KINDS@
}
local alignments = {
@ALIGNMENTS@
}
local stop_modes = {
@STOP_MODES@
}

local flink = Proto("flink", "Apache Flink data port")

local f = {
  length = ProtoField.uint32("flink.length", "Frame length"),
  magic = ProtoField.uint32("flink.magic", "Magic number", base.HEX),
  id = ProtoField.uint8("flink.id", "Message", base.DEC, messages),
  layout = ProtoField.string("flink.layout", "Layout of this release"),
  receiver = ProtoField.bytes("flink.receiver", "Receiver (InputChannelID)", base.COLON),
  subpartition = ProtoField.int32("flink.subpartition", "Subpartition"),
  partial_buffers = ProtoField.int32("flink.partial_buffers", "Number of partial buffers"),
  partial_size = ProtoField.int32("flink.partial_size", "Size of a partial buffer"),
  sequence_number = ProtoField.int32("flink.sequence_number", "Sequence number"),
  backlog = ProtoField.int32("flink.backlog", "Backlog (buffers)"),
  data_type = ProtoField.uint8("flink.data_type", "Data type", base.DEC, data_types),
  compressed = ProtoField.bool("flink.compressed", "Compressed"),
  size = ProtoField.int32("flink.size", "Payload size"),
  payload = ProtoField.bytes("flink.payload", "Payload"),
  event = ProtoField.int32("flink.event", "Event", base.DEC, events),
  event_class = ProtoField.string("flink.event_class", "Class of the event"),
  checkpoint_id = ProtoField.int64("flink.checkpoint_id", "Checkpoint"),
  timestamp = ProtoField.int64("flink.timestamp", "Timestamp (ms since 1970)"),
  checkpoint_kind = ProtoField.uint8("flink.checkpoint_kind", "Kind", base.DEC, checkpoint_kinds),
  savepoint_format = ProtoField.uint8("flink.savepoint_format", "Savepoint format"),
  location = ProtoField.bytes("flink.location", "Target location"),
  alignment = ProtoField.uint8("flink.alignment", "Alignment", base.DEC, alignments),
  alignment_timeout = ProtoField.int64("flink.alignment_timeout", "Aligned timeout (ms)"),
  stop_mode = ProtoField.uint8("flink.stop_mode", "Stop mode", base.DEC, stop_modes),
  credit = ProtoField.int32("flink.credit", "Credit (buffers)"),
  buffer_size = ProtoField.int32("flink.buffer_size", "New buffer size (bytes)"),
  segment_id = ProtoField.int32("flink.segment_id", "Segment"),
  data_set = ProtoField.bytes("flink.data_set", "IntermediateDataSetID"),
  partition = ProtoField.int32("flink.partition", "Partition number"),
  execution_graph = ProtoField.bytes("flink.execution_graph", "ExecutionGraphID"),
  job_vertex = ProtoField.bytes("flink.job_vertex", "JobVertexID of the producer"),
  subtask = ProtoField.int32("flink.subtask", "Subtask of the producer"),
  attempt = ProtoField.int32("flink.attempt", "Attempt of the producer"),
  first_subpartition = ProtoField.int32("flink.first_subpartition", "First subpartition"),
  last_subpartition = ProtoField.int32("flink.last_subpartition", "Last subpartition"),
  error = ProtoField.bytes("flink.error", "Serialized Java exception"),
  error_class = ProtoField.string("flink.error_class", "Class of the exception"),
  fatal = ProtoField.bool("flink.fatal", "Concerns the whole connection"),
  skipped = ProtoField.bytes("flink.skipped", "Bytes before the next frame"),
}
for _, field in pairs(f) do
  flink.fields[#flink.fields + 1] = field
end

local unknown_layout = ProtoExpert.new("flink.unknown_layout",
  "Neither the layout of Flink 1.x nor that of 2.x", expert.group.MALFORMED, expert.severity.ERROR)
local not_a_frame = ProtoExpert.new("flink.not_a_frame",
  "No frame begins here: the capture began in the middle, or bytes are missing",
  expert.group.SEQUENCE, expert.severity.NOTE)
flink.experts = { unknown_layout, not_a_frame }

-- Each of these adds the fields of one message to `tree` and returns what Info says of it. Offsets
-- count from the first byte of the frame.

local function add_partition(tree, tvb, at)
  tree:add(f.data_set, tvb(at, 16))
  tree:add(f.partition, tvb(at + 16, 4))
  tree:add(f.execution_graph, tvb(at + 20, 16))
  tree:add(f.job_vertex, tvb(at + 36, 16))
  tree:add(f.subtask, tvb(at + 52, 4))
  tree:add(f.attempt, tvb(at + 56, 4))
end

local function add_barrier(tree, tvb, at)
  tree:add(f.checkpoint_id, tvb(at, 8))
  tree:add(f.timestamp, tvb(at + 8, 8))
  tree:add(f.checkpoint_kind, tvb(at + 16, 1))
  local kind = tvb(at + 16, 1):uint()
  local info = " " .. tostring(tvb(at, 8):int64())
  at = at + 17
  if kind >= 1 and kind <= 3 then
    tree:add(f.savepoint_format, tvb(at, 1))
    at = at + 1
  end
  local location_bytes = tvb(at, 4):int()
  at = at + 4
  if location_bytes > 0 then
    tree:add(f.location, tvb(at, location_bytes))
    at = at + location_bytes
  end
  tree:add(f.alignment, tvb(at, 1))
  tree:add(f.alignment_timeout, tvb(at + 1, 8))
  return info
end

local function add_event(tree, tvb, at, size)
  if size < 4 then return "?" end
  local tag = tvb(at, 4):int()
  tree:add(f.event, tvb(at, 4))
  local info = events[tag] or ("event " .. tag)
  if tag == 1 and size >= 34 then
    info = info .. add_barrier(tree, tvb, at + 4)
  elseif tag == 4 and size >= 12 then
    tree:add(f.checkpoint_id, tvb(at + 4, 8))
    info = info .. " " .. tostring(tvb(at + 4, 8):int64())
  elseif tag == 8 and size >= 5 then
    tree:add(f.stop_mode, tvb(at + 4, 1))
  elseif tag == 3 and size >= 6 then
    local name_bytes = math.min(tvb(at + 4, 2):uint(), size - 6)
    tree:add(f.event_class, tvb(at + 6, name_bytes))
    info = tvb(at + 6, name_bytes):string():match("[^.]*$")
  end
  return info
end

local function is_2x(tvb, length)
  if length < 47 then return false end
  local partial_buffers, size = tvb(29, 4):int(), tvb(43, 4):int()
  local data_type, flag = tvb(41, 1):uint(), tvb(42, 1):uint()
  return partial_buffers >= 0 and length == 47 + 4 * partial_buffers + size
    and data_type >= 1 and data_type <= 13 and flag <= 1
end

local function is_1x(tvb, length)
  if length < 43 then return false end
  local data_type, flag = tvb(37, 1):uint(), tvb(38, 1):uint()
  return length == 43 + tvb(39, 4):int() and data_type >= 1 and data_type <= 11 and flag <= 1
end

local function buffer_response(tree, tvb, length)
  local at, partial_buffers = 29, 0
  if is_2x(tvb, length) then
    tree:add(f.layout, "2.x"):set_generated()
  elseif is_1x(tvb, length) then
    tree:add(f.layout, "1.x"):set_generated()
  else
    tree:add_proto_expert_info(unknown_layout)
    return "BufferResponse ?"
  end
  tree:add(f.receiver, tvb(9, 16))
  tree:add(f.subpartition, tvb(25, 4))
  if is_2x(tvb, length) then
    partial_buffers = tvb(29, 4):int()
    tree:add(f.partial_buffers, tvb(29, 4))
    at = 33
  end
  local sequence_number, backlog = tvb(at, 4):int(), tvb(at + 4, 4):int()
  local data_type, size = tvb(at + 8, 1):uint(), tvb(at + 10, 4):int()
  tree:add(f.sequence_number, tvb(at, 4))
  tree:add(f.backlog, tvb(at + 4, 4))
  tree:add(f.data_type, tvb(at + 8, 1))
  tree:add(f.compressed, tvb(at + 9, 1))
  tree:add(f.size, tvb(at + 10, 4))
  at = at + 14
  for i = 0, partial_buffers - 1 do
    tree:add(f.partial_size, tvb(at + 4 * i, 4))
  end
  at = at + 4 * partial_buffers
  local what = size .. " B"
  if size > 0 then
    local payload = tree:add(f.payload, tvb(at, size))
    if data_type ~= 1 and data_type ~= 8 then
      what = add_event(payload, tvb, at, size)
    end
  end
  return string.format("Buffer #%d %s backlog %d", sequence_number, what, backlog)
end

local function error_response(tree, tvb, length)
  -- A Java stream with one object, then whether a receiver follows, then the receiver. The stream
  -- has no length; one of an exception that concerns the connection ends with a null or a block.
  local last = length > 10 and tvb(length - 2, 1):uint()
  local is_fatal = tvb(length - 1, 1):uint() == 0 and (last == 0x70 or last == 0x78)
  local has_receiver = length >= 27 and tvb(length - 17, 1):uint() == 1 and not is_fatal
  local stream_bytes = length - HEADER_BYTES - (has_receiver and 17 or 1)
  if stream_bytes < 0 then return "ErrorResponse ?" end
  local info = "ErrorResponse"
  if stream_bytes > 0 then
    local stream = tree:add(f.error, tvb(9, stream_bytes))
    if stream_bytes > 8 and tvb(13, 2):uint() == 0x7372 then -- an object of a class: its name
      local name_bytes = math.min(tvb(15, 2):uint(), stream_bytes - 8)
      stream:add(f.error_class, tvb(17, name_bytes))
      info = info .. " " .. tvb(17, name_bytes):string():match("[^.]*$")
    end
  end
  tree:add(f.fatal, not has_receiver):set_generated()
  if has_receiver then tree:add(f.receiver, tvb(length - 16, 16)) end
  return info
end

local function partition_request(tree, tvb)
  add_partition(tree, tvb, 9)
  tree:add(f.first_subpartition, tvb(69, 4))
  tree:add(f.last_subpartition, tvb(73, 4))
  tree:add(f.receiver, tvb(77, 16))
  tree:add(f.credit, tvb(93, 4))
  return string.format("PartitionRequest %d of partition %d credit %d",
    tvb(69, 4):int(), tvb(25, 4):int(), tvb(93, 4):int())
end

local function task_event_request(tree, tvb)
  local size = tvb(9, 4):int()
  tree:add(f.size, tvb(9, 4))
  local info = add_event(tree, tvb, 13, size)
  add_partition(tree, tvb, 13 + size)
  tree:add(f.receiver, tvb(73 + size, 16))
  return "TaskEventRequest " .. info
end

local function number_and_receiver(field, format)
  return function(tree, tvb)
    tree:add(field, tvb(9, 4))
    tree:add(f.receiver, tvb(13, 16))
    return string.format(format, tvb(9, 4):int())
  end
end

local function receiver_only(info)
  return function(tree, tvb)
    tree:add(f.receiver, tvb(9, 16))
    return info
  end
end

local function segment_id(tree, tvb)
  tree:add(f.subpartition, tvb(9, 4))
  tree:add(f.segment_id, tvb(13, 4))
  tree:add(f.receiver, tvb(17, 16))
  return "SegmentId " .. tvb(13, 4):int()
end

local bodies = {
  [0] = buffer_response,
  [1] = error_response,
  [2] = partition_request,
  [3] = task_event_request,
  [4] = receiver_only("CancelPartitionRequest"),
  [5] = function() return "CloseRequest" end,
  [6] = number_and_receiver(f.credit, "AddCredit +%d"),
  [7] = receiver_only("ResumeConsumption"),
  [8] = receiver_only("AckAllUserRecordsProcessed"),
  [9] = number_and_receiver(f.backlog, "BacklogAnnouncement %d"),
  [10] = number_and_receiver(f.buffer_size, "NewBufferSize %d"),
  [11] = segment_id,
}
local shortest = { [0] = 43, 10, 97, 89, 25, 9, 29, 25, 25, 29, 29, 33 }

local function is_frame(tvb, at)
  local length, id = tvb(at, 4):uint(), tvb(at + 8, 1):uint()
  return tvb(at + 4, 4):uint() == MAGIC and shortest[id] ~= nil
    and length >= shortest[id] and length <= LONGEST_FRAME_BYTES
end

local function next_frame(tvb, at)
  while at + HEADER_BYTES <= tvb:len() do
    if is_frame(tvb, at) then return at end
    at = at + 1
  end
  return nil
end

local written -- by the last call, into the column Info

function flink.dissector(tvb, pinfo, root)
  local at, infos = 0, {}
  while at < tvb:len() do
    local rest = tvb:len() - at
    if rest < HEADER_BYTES then
      pinfo.desegment_offset, pinfo.desegment_len = at, DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    if not is_frame(tvb, at) then
      local found = next_frame(tvb, at + 1)
      local stop = found or tvb:len()
      root:add(flink, tvb(at, stop - at)):add(f.skipped, tvb(at, stop - at))
        :add_proto_expert_info(not_a_frame)
      at = stop
    else
      local length = tvb(at, 4):uint()
      if length > rest then
        pinfo.desegment_offset, pinfo.desegment_len = at, length - rest
        break
      end
      local frame = tvb(at, length):tvb()
      local id = frame(8, 1):uint()
      local tree = root:add(flink, frame())
      tree:add(f.length, frame(0, 4))
      tree:add(f.magic, frame(4, 4))
      tree:add(f.id, frame(8, 1))
      local is_good, info = pcall(bodies[id], tree, frame, length)
      if not is_good then info = messages[id] .. " ?" end
      tree:append_text(", " .. info)
      infos[#infos + 1] = info
      at = at + length
    end
  end
  if #infos > 0 then
    pinfo.cols.protocol = "Flink"
    -- One packet may be handed over in two parts: the end of a message that began before it, and the
    -- rest. What the first part has written stays, and this is appended.
    local is_more = tostring(pinfo.cols.info) == written
    written = table.concat(infos, " | ", 1, math.min(#infos, 6))
      .. (#infos > 6 and string.format(" | … (%d)", #infos) or "")
    pinfo.cols.info = (is_more and " | " or "") .. written
  end
  return tvb:len()
end

flink:register_heuristic("tcp", function(tvb, pinfo, root)
  if tvb:len() < HEADER_BYTES or not is_frame(tvb, 0) then return false end
  pinfo.conversation = flink
  flink.dissector(tvb, pinfo, root)
  return true
end)
DissectorTable.get("tcp.port"):add_for_decode_as(flink)
