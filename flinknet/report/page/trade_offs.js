// What other settings would do: curves along one setting, a heat map over two, a table of all.

const METRICS = {
  p99: {name: "p99", value: (point) => point.latency_ns.p99, format: duration, isLog: true},
  p50: {name: "p50", value: (point) => point.latency_ns.p50, format: duration, isLog: true},
  throughput: {name: "records/s", value: (point) => point.throughput_records_per_s, format: count},
  buffers: {name: "buffers/s", value: (point) => point.buffers_per_s, format: count, isLog: true},
  memory: {name: "memory", value: (point) => point.memory_bytes ?? null, format: bytes},
};

const MEANING = {
  throughput: "Records per second that the consumers read.",
  p50: "Half of the records were consumed within this time after they were due.",
  p99: "99 of 100 records were consumed within this time after they were due.",
  backlog: "Data buffers still queued at the producer when one left, averaged over the buffers.",
  backlogMax: "The longest queue of data buffers that a producer announced.",
  buffers: "Data buffers per second over all channels: each costs processor time on both sides.",
  packets: "Packets per second at most, where every message leaves on its own; without acknowledgements.",
  bytes: "Bytes per second on the network: payload, headers of messages and of packets.",
  cpu: "CPU against the recorded setting, in percent of a core, on both sides together.",
  memory: "The most that all buffer pools of producers and consumers can take.",
};

// Of a timeout as it is written: "5ms"; -1 is the longest.
function timeoutNs(text) {
  const units = {d: 86400e9, h: 3600e9, min: 60e9, s: 1e9, ms: 1e6, us: 1e3, ns: 1};
  const [, number, unit] = text.match(/^(-?[\d.]+)(\D*)$/) || [null, Infinity, ""];
  return number < 0 ? Infinity : number * (units[unit] ?? 1);
}

// Of each point the 90% interval of its latency, if there is one; else as the model errs.
function bandOf(line, metric, error) {
  const between = line.map((point) => point.latency_low_ns && point.latency_high_ns && metric in point.latency_low_ns
    ? [point.latency_low_ns[metric], point.latency_high_ns[metric]] : null);
  if (between.some((each) => each && each.every((value) => value !== null))) return between;
  if (!error) return null;
  return line.map((point) => {
    const value = METRICS[metric].value(point);
    return value ? [value / (1 + Math.abs(error)), value * (1 + Math.abs(error))] : null;
  });
}

function pointTip(answer, point) {
  const rows = answer.varies.map((name) => [name, point.setting[name]]);
  for (const metric of Object.values(METRICS)) {
    const value = metric.value(point);
    if (value !== null) rows.push([metric.name, metric.format(value)]);
  }
  for (const name of point.latency_high_ns ? ["p99", "p50"] : []) {
    rows.push([`${name} between`, `${duration(point.latency_low_ns[name])} and ${duration(point.latency_high_ns[name])}`]);
  }
  rows.push(["backlog, mean", count(point.backlog_buffers.mean)], ["backlog, max", count(point.backlog_buffers.max)]);
  return {title: point.is_recorded ? "predicted for the recorded setting" : "predicted", rows};
}

function tradeOffs(answer) {
  const points = answer.trade_offs, dimensions = answer.varies;
  if (points.every((point) => point.throughput_records_per_s === null)) return nothingPredicted(points);
  const choices = Object.fromEntries(dimensions.map((name) => [name, [...new Set(points.map((point) => point.setting[name]))]]));
  // Finer steps of one situation stand between those of all.
  if (choices["buffer timeout"]) choices["buffer timeout"].sort((a, b) => timeoutNs(a) - timeoutNs(b));
  const byLength = [...dimensions].sort((a, b) => choices[b].length - choices[a].length);
  const recorded = points.find((point) => point.is_recorded) || points[0];
  const state = {x: byLength[0], y: byLength[1], metric: "p99", fixed: {...recorded.setting}};
  const place = h("div");

  const at = (setting) => points.find((point) => dimensions.every((name) => point.setting[name] === setting[name]));
  function along() {
    return choices[state.x].map((value) => at({...state.fixed, [state.x]: value})).filter(Boolean);
  }
  function draw() {
    const label = document.activeElement.closest("label"), name = label && label.firstChild.textContent;
    place.replaceChildren(...[controls(), ...plots(), dimensions.length > 1 ? heat() : null].filter(Boolean));
    const again = [...place.querySelectorAll("label")].find((each) => each.firstChild.textContent === name);
    if (again) again.querySelector("select").focus();
  }
  function controls() {
    if (dimensions.length < 2) return null;
    const set = (change) => { Object.assign(state, change); draw(); };
    return h("div", {class: "controls"},
      select("Curves along", dimensions.map((name) => [name, name]), state.x, (x) => set({x, y: x === state.y ? state.x : state.y})),
      dimensions.filter((name) => name !== state.x).map((name) => select(`at ${name}`, choices[name].map((value) =>
        [value, value + (value === recorded.setting[name] ? " (recorded)" : "")]), state.fixed[name],
      (value) => { state.fixed[name] = value; draw(); })));
  }
  function plots() {
    const line = along(), labels = line.map((point) => point.setting[state.x]);
    const isRecordedLine = dimensions.every((name) => name === state.x || state.fixed[name] === recorded.setting[name]);
    const marks = line.flatMap((point, index) => point.marks.length ? [[index, point.marks.join(", ")]] : []);
    const common = {
      labels, recorded: isRecordedLine ? labels.indexOf(recorded.setting[state.x]) : -1, marks,
      tip: (index) => pointTip(answer, line[index]),
    };
    const isDoubtful = answer.model_error_text.is_doubtful;
    const series = (metric, color, error) => ({
      name: METRICS[metric].name, color, values: line.map((point) => METRICS[metric].value(point)),
      band: bandOf(line, metric, isDoubtful ? null : error),
    });
    const error = answer.model_error;
    const isBetween = line.some((point) => point.latency_high_ns);
    const ofError = isDoubtful ? "No band: the model's error is more than half." : "The band is as wide as the model's error on the recorded setting.";
    const ofLatency = isBetween ? "The band is the 90% interval." : ofError;
    const memory = new Set(line.map((point) => METRICS.memory.value(point)));
    return [h("div", {class: memory.size > 1 ? "pair" : "pair trio"},
      chart(`Latency by ${state.x}`, ofLatency,
        [["p50", "var(--blue)", MEANING.p50, true], ["p99", "var(--orange)", MEANING.p99, true]],
        (width) => curves({...common, isLog: true, format: duration, label: "predicted latency",
          series: [series("p99", "var(--orange)", error.p99), series("p50", "var(--blue)", error.p50)]}, width)),
      chart(`Throughput by ${state.x}`, ofError,
        [["records/s", "var(--green)", MEANING.throughput, true]],
        (width) => curves({...common, format: count, label: "predicted throughput",
          series: [series("throughput", "var(--green)", error.throughput)]}, width)),
      chart(`Buffers per second by ${state.x}`, MEANING.buffers, null,
        (width) => curves({...common, isLog: true, format: count, label: "predicted buffers per second",
          series: [series("buffers", "var(--purple)")]}, width)),
      memory.size > 1
        ? chart(`Memory by ${state.x}`, MEANING.memory, null,
          (width) => curves({...common, format: bytes, label: "memory needed", series: [series("memory", "var(--gold)")]}, width))
        : null)];
  }
  function heat() {
    const metric = METRICS[state.metric], columns = choices[state.x];
    if (state.y === state.x || !state.y) state.y = byLength.find((name) => name !== state.x);
    const rows = choices[state.y];
    const found = rows.map((row) => columns.map((column) => at({...state.fixed, [state.y]: row, [state.x]: column}) || null));
    const place = found.flatMap((row, i) => row.map((point, j) => point && point.is_recorded ? [i, j] : null)).find(Boolean);
    const figure = chart(`${metric.name} by ${state.y} (down) and ${state.x} (across)`,
      "The darker, the more. The recorded setting is framed.", null, (width) => heatMap({
        columns, rows, recorded: place, isLog: metric.isLog, format: metric.format, label: `heat map of ${metric.name}`,
        values: found.map((row) => row.map((point) => point ? metric.value(point) : null)),
        tip: (i, j) => found[i][j] ? pointTip(answer, found[i][j]) : "not among the settings",
      }, width));
    figure.classList.add("heat");
    return h("div", {}, h("div", {class: "controls"},
      select("Heat map of", Object.entries(METRICS).map(([key, {name}]) => [key, name]), state.metric, (key) => { state.metric = key; draw(); }),
      dimensions.length > 2 ? select("down", dimensions.filter((name) => name !== state.x).map((name) => [name, name]), state.y,
        (y) => { state.y = y; draw(); }) : null), figure);
  }
  draw();
  return h("section", {id: "trade-offs"}, h("h2", {}, "What other settings would do"),
    h("p", {class: "lead"}, "Predicted from the recorded arrivals and service times, including the recorded setting."),
    place, settingsTable(answer), notes(answer));
}

function nothingPredicted(points) {
  const why = points.flatMap((point) => point.notes).find((note) => note.startsWith("not predicted")) || "not predicted";
  return h("section", {id: "trade-offs"}, h("h2", {}, "What other settings would do"), h("p", {class: "note"}, `${why}.`));
}

function settingsTable(answer) {
  const heads = [...answer.varies.map((name) => [name]), ["records/s", MEANING.throughput], ["p50", MEANING.p50], ["p99", MEANING.p99],
    ["backlog", MEANING.backlog], ["max", MEANING.backlogMax], ["buffers/s", MEANING.buffers],
    ...priceHeads(), ["memory", MEANING.memory], [""]];
  heads.splice(answer.varies.length, 0, ["", capital(answer.frontier_meaning)]);
  const rows = answer.trade_offs.map((point) => ({recorded: point.is_recorded, cells: [
    ...answer.varies.map((name) => point.setting[name]), point.is_on_frontier ? "◆" : "",
    count(point.throughput_records_per_s), duration(point.latency_ns.p50), duration(point.latency_ns.p99),
    fixed(point.backlog_buffers.mean), count(point.backlog_buffers.max), count(point.buffers_per_s),
    ...priceCells(point), bytes(point.memory_bytes), point.marks.map((mark) => `← ${mark}`).join(" ")]}));
  return h("details", {open: rows.length <= 12 ? "" : null}, h("summary", {}, `All ${rows.length} settings`),
    rows.length && answer.trade_offs.some((point) => point.is_on_frontier) ? h("p", {class: "note small"}, `◆ on the frontier: ${answer.frontier_meaning}.`) : null,
    table(heads, rows));
}

const priceHeads = () => [["packets/s", MEANING.packets], ["bytes/s", MEANING.bytes], ["CPU change", MEANING.cpu]];

function priceCells({price}) {
  if (!price) return [MISSING, MISSING, MISSING];
  const cores = price.cpu_cores_change;
  return [count(price.packets_per_s), `${bytes(price.bytes_per_s)}/s`,
    cores === 0 ? "0%" : change(cores)];
}

const fixed = (value) => value === null || value === undefined ? MISSING : value.toFixed(2);

const notes = ({notes}) => notes.length ? h("ul", {class: "notes"}, notes.map((note) => h("li", {}, note))) : null;
