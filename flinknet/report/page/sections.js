// The sections of one run.

// Share up to which the model's error is small.
const ERROR_SMALL = 0.1;

// The class of what says how far the model is off: green only where every figure was recorded and its error is small.
function bannerOf({throughput, p50, p99, buffers_per_s: buffers}, isDoubtful) {
  const isSmall = [throughput, p50, p99, buffers || 0].every((value) => value !== null && Math.abs(value) <= ERROR_SMALL);
  return `banner${isDoubtful ? " doubt" : isSmall ? "" : " plain"}`;
}

function modelError({model_error: error, model_error_text: {figures, used, consequence, is_doubtful: isDoubtful}}) {
  return h("div", {class: bannerOf(error, isDoubtful), id: "model-error"},
    h("strong", {}, term("Model error", "(predicted − observed) / observed, for the setting that was recorded: the one prediction that can be checked."),
      figures === null ? " unknown" : ` on the recorded setting: ${figures}`),
    h("p", {class: "small"}, `From ${used}. `, isDoubtful && figures !== null ? `Do not rely on the predictions below: ${consequence}.` : `${capital(consequence)}.`));
}

const doubts = ({doubts: lines}) => lines.length ? h("div", {class: "banner doubt", id: "doubts"}, lines.map((line) => h("p", {class: "small"}, capital(line)))) : null;

function facts(answer) {
  const observed = answer.observed;
  const rows = [
    ["records", count(observed.records), "Records due in the measured part, and consumed."],
    ["throughput", perSecond(observed.throughput_records_per_s), MEANING.throughput],
    ["bytes", `${bytes(observed.throughput_bytes_per_s)}/s`, "Bytes of record values per second, without what the stream adds."],
    ["p50", duration(observed.latency_ns.p50), MEANING.p50],
    ["p99", duration(observed.latency_ns.p99), MEANING.p99],
    ["max latency", duration(observed.latency_ns.max), "The longest latency of a record."],
    ["backlog", fixed(observed.backlog_buffers.mean), MEANING.backlog],
    ["max backlog", count(observed.backlog_buffers.max), MEANING.backlogMax],
    ["time without credit", duration(observed.credits.starved_ns), "Time with a backlog and no credit, summed over the channels."],
    ["buffers", count(observed.buffers), `Data buffers sent: ${count(observed.flushes.full)} full, ${count(observed.flushes.timeout)} by the buffer timeout, ${count(observed.flushes.event)} pushed by an event.`],
  ];
  return h("dl", {class: "facts"}, rows.map(([name, value, meaning]) =>
    h("div", {class: "fact"}, h("dt", {}, term(name, meaning)), h("dd", {}, value))));
}

function latencySection(answer) {
  const {latency_distribution: latency} = answer, observed = answer.observed.latency_ns;
  if ((answer.trace.origin ?? "run") !== "run") return latencyNotSeen();
  const total = latency.records.reduce((sum, records) => sum + records, 0);
  const below = [];
  latency.records.reduce((sum, records, index) => below[index] = sum + records, 0);
  const recorded = answer.trade_offs.find((point) => point.is_recorded);
  const names = [["p50", 0.5], ["p75", 0.75], ["p90", 0.9], ["p95", 0.95], ["p99", 0.99], ["p99_9", 0.999]];
  const predicted = recorded ? names.map(([name, q]) => [q, recorded.latency_ns[name]]).filter(([, value]) => value !== null && value !== undefined) : [];
  return h("section", {id: "latency"}, h("h2", {}, "Latency"),
    h("p", {class: "lead"}, "From the instant at which a record was due until its consumer had read the buffer that holds its end."),
    h("div", {class: "pair"},
      chart("Distribution", "Share of the records in each range of latency; the axis is logarithmic.", null, (width) => histogram({
        edges: latency.low_ns.map((low, index) => [low, latency.high_ns[index]]), isLog: true, xFormat: duration,
        yFormat: (share) => percent(share), label: "distribution of the latency",
        series: [{name: "records", color: "var(--blue)", values: latency.records.map((records) => records / total)}],
        marks: [[observed.p50, `p50 ${duration(observed.p50)}`], [observed.p99, `p99 ${duration(observed.p99)}`]],
        tip: (index) => ({title: `${duration(latency.low_ns[index])} to ${duration(latency.high_ns[index])}`, rows: [
          ["records", count(latency.records[index])], ["share", percent(latency.records[index] / total, 2)],
          ["this long or less", percent(below[index] / total, 2)]]}),
      }, width)),
      chart("By percentile", "Each nine has the same room. Percentiles that too few records support are left out.",
        [["observed", "var(--blue)", null, true], ["predicted for the recorded setting", "var(--orange)", null, true]],
        (width) => percentiles({
          points: latency.percentiles, color: "var(--blue)", format: duration, label: "latency by percentile",
          others: predicted.length ? [{name: "predicted", color: "var(--orange)", points: predicted}] : [],
          tip: (q, value) => {
            const same = predicted.find(([other]) => Math.abs(other - q) < 1e-9);
            return {title: `${+(q * 100).toFixed(4)}% of the records`, rows: [["observed, at most", duration(value)],
              ...same ? [["predicted", duration(same[1])]] : []]};
          },
        }, width))));
}

function latencyNotSeen() {
  return h("section", {id: "latency"}, h("h2", {}, "Latency"),
    h("p", {class: "note"}, "Not observed: messages between processes do not show when records came. Predictions come with 90% intervals."));
}

const channelName = (each) => `${each.channel}: ${each.name || `${each.producer} → ${each.consumer}`}`;

function overTime(answer) {
  const {channels, channels_left_out: leftOut} = answer.details;
  if (!channels.length) return null;
  const durationNs = answer.details.duration_ns || answer.trace.measured_duration_ns;
  const ends = new Map(answer.channels.map((each) => [each.channel, each]));
  const name = (number) => ends.has(number) ? channelName(ends.get(number)) : String(number);
  const slowness = (number) => ends.has(number) ? ends.get(number).latency_ns.p99 ?? ends.get(number).backlog_buffers.mean ?? 0 : 0;
  const slowest = channels.map((each) => each.channel).reduce((most, each) => slowness(each) > slowness(most) ? each : most);
  const state = {channel: slowest, range: null};
  const place = h("div"), reset = h("button", {type: "button", disabled: "", onclick: () => zoom(null)}, "reset zoom");
  const where = h("span", {class: "small", "aria-live": "polite"});
  let shown = null;
  const picker = select("Channel", channels.map((each) => [each.channel, name(each.channel)]), state.channel,
    (number) => { state.channel = Number(number); draw(); });
  function zoom(range) {
    const hadFocus = place.contains(document.activeElement);
    state.range = range;
    reset.disabled = !range;
    where.textContent = range ? `${timeFormat(1e9)(+range[0].toPrecision(6))} to ${timeFormat(1e9)(+range[1].toPrecision(6))}` : "";
    shown.redraw();
    if (hadFocus) place.querySelector("svg").focus({preventScroll: true});
  }
  function draw() {
    const channel = channels.find((each) => each.channel === state.channel);
    shown = timeline(channel, durationNs, state, zoom);
    place.replaceChildren(shown);
  }
  draw();
  return h("section", {id: "over-time"}, h("h2", {}, "Over time"),
    h("p", {class: "lead"}, "Drag to zoom, double click to reset; from the keyboard + and −, 0 to reset, arrows to read values." + (hasRegimes(channels) ? " The strip splits each window by where its time went." : ""),
      leftOut ? ` The ${channels.length} channels with the highest p99 are here, ${leftOut} more are not.` : ""),
    h("div", {class: "controls"}, picker, reset, where),
    legend([...panelsOf(channels).map((panel) => [panel.title, panel.color, panel.meaning, true]),
      ...hasRegimes(channels) ? REGIMES.map(([, text, color, meaning]) => [text, color, meaning]) : []]),
    place);
}

function regimesSection(answer) {
  const isKnown = Object.values(answer.regimes || {}).some(Boolean);
  if (!isKnown && !answer.bottleneck && !(answer.diagnosis || []).length) return null;
  const MOST = 24;
  const slowest = [...answer.channels].filter((each) => each.regimes).sort((a, b) => (b.latency_ns.p99 || 0) - (a.latency_ns.p99 || 0));
  const shown = slowest.slice(0, MOST).sort((a, b) => a.channel - b.channel);
  const rows = [{name: "all", shares: answer.regimes}, ...shown.map((each) =>
    ({name: channelName(each), shares: each.regimes}))];
  const onIt = {in_receiver_queue: "var(--on-gold)", idle: "var(--on-grey)"};
  const parts = REGIMES.map(([key, text, color]) => [key, text, color, onIt[key] || "var(--card)"]);
  const left = slowest.length - shown.length + (answer.channels_left_out || 0);
  return h("section", {id: "regimes"}, h("h2", {}, "Where the time went"),
    isKnown && h("p", {class: "lead"}, "At any instant, a channel's time counts for the place where its oldest record is that has not been consumed yet.",
      left ? ` The ${MOST} channels with the highest p99 are here, ${left} more are not.` : ""),
    answer.diagnosis && answer.diagnosis.length ? h("ul", {class: "verdicts"}, answer.diagnosis.map((verdict) =>
      h("li", {}, h("b", {"data-tip": `Share behind the verdict: ${percent(verdict.share)}`, tabindex: 0}, verdict.edge), `: ${verdict.text}`))) : null,
    isKnown ? legend(REGIMES.map(([, text, color, meaning]) => [text, color, meaning])) : null,
    isKnown && responsive((width) => stackedBars({rows, parts, label: "share of time by regime", tip: (row, part) => {
      const [, text, , meaning] = REGIMES.find(([key]) => key === part);
      return {title: `${row.name === "all" ? "all channels" : `channel ${row.name}`}, ${text}: ${percent(row.shares[part])}`, text: meaning};
    }}, width)));
}

const FLUSH_REASONS = [
  ["full", "full", "var(--blue)", "The segment was full."],
  ["timeout", "by the buffer timeout", "var(--orange)", "The beat of the buffer timeout (or timeout 0) took what was there."],
  ["event", "pushed by an event", "var(--purple)", "An event, or the end of the data, pushed it out."],
];

function fillSection(answer) {
  const {fill} = answer.details;
  const totals = fill.full.map((_, index) => FLUSH_REASONS.reduce((sum, [key]) => sum + fill[key][index], 0));
  const all = totals.reduce((sum, each) => sum + each, 0);
  return h("section", {id: "fill"}, h("h2", {}, "How full the buffers were"),
    h("p", {class: "lead"}, `Payload of each data buffer by the segment size of ${bytes(fill.segment_size_bytes)}`,
      fill.mean === null ? "." : `: ${percent(fill.mean)} on average. Emptier buffers mean more messages for the same records.`,
      fill.full.some(Boolean) ? " A buffer that left because its segment was full may still carry few bytes: earlier flushes had sent the rest of that segment." : ""),
    legend(FLUSH_REASONS.map(([, text, color, meaning]) => [text, color, meaning])),
    responsive((width) => histogram({
      edges: totals.map((_, index) => [index / fill.bins, (index + 1) / fill.bins]), xFormat: (share) => percent(share, 0), yFormat: count,
      series: FLUSH_REASONS.map(([key, name, color]) => ({name, color, values: fill[key]})), label: "fill ratio of the buffers",
      tip: (index) => ({title: `${percent(index / fill.bins, 0)} to ${percent((index + 1) / fill.bins, 0)} full`, rows: [
        ...FLUSH_REASONS.filter(([key]) => fill[key][index]).map(([key, text]) => [text, `${count(fill[key][index])} buffer${fill[key][index] === 1 ? "" : "s"}`]),
        ["share", percent(all ? totals[index] / all : 0)]]}),
    }, width)));
}

function channelsSection(answer) {
  const MOST = 64;
  const slowest = [...answer.channels].sort((a, b) => (b.latency_ns.p99 || 0) - (a.latency_ns.p99 || 0)).slice(0, MOST);
  const heads = [["channel", "Its number, and the subtasks at its ends: producer → consumer."], ["records/s", MEANING.throughput], ["p50", MEANING.p50],
    ["p99", MEANING.p99], ["backlog", MEANING.backlog], ["max", MEANING.backlogMax],
    ["starved", "Time with a backlog and no credit."], ["data", "Data buffers sent."], ["credit", "Messages that announced credit."]];
  const rows = slowest.sort((a, b) => a.channel - b.channel).map((each) => ({cells: [
    channelName(each).replaceAll(" ", "\u00a0"), count(each.throughput_records_per_s), duration(each.latency_ns.p50),
    duration(each.latency_ns.p99), fixed(each.backlog_buffers.mean), count(each.backlog_buffers.max), duration(each.starved_ns),
    count(each.messages.DATA_BUFFER || 0), count(each.messages.ADD_CREDIT || 0)]}));
  const left = answer.channels.length - rows.length + (answer.channels_left_out || 0);
  return h("section", {id: "channels"}, h("h2", {}, "Channels and messages"),
    left ? h("p", {class: "lead"}, `The ${MOST} channels with the highest p99 are here, ${left} more are not.`) : null,
    table(heads, rows),
    h("h3", {style: "margin-top: 1rem"}, "Messages by kind"),
    table([["kind"], ["messages", "As they were sent, on all channels."], ["payload", "Bytes in their buffers."]],
      answer.messages.map((each) => ({cells: [each.kind.replaceAll("_", "_\u200b"), count(each.messages), each.payload_bytes ? bytes(each.payload_bytes) : MISSING]}))));
}

function environment(answer) {
  const {trace} = answer, about = answer.details.environment || {};
  const plain = (value) => value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
  const pairs = (values) => h("dl", {class: "pairs"}, Object.entries(values).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, plain(value)))));
  const parts = [["Flink's keys", trace.config], ["Workload", about.workload], ["Host", about.host], ["Versions", about.versions]];
  return h("section", {id: "environment"}, h("h2", {}, "Environment"),
    h("p", {class: "lead"}, `Recorded at ${trace.started_at}: ${count(trace.events)} events on ${count(trace.channels)} ${trace.channels === 1 ? "channel" : "channels"}, `
      + `${duration(trace.measured_duration_ns)} measured${trace.is_max_rate ? ", at the highest rate" : ""}.`),
    parts.filter(([, values]) => values && Object.keys(values).length).map(([name, values]) =>
      h("details", {}, h("summary", {}, name), pairs(values))));
}
