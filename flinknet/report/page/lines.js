// Lines over the time of a run, and changes with their intervals.

const SINCE = "time since the start", LANE_PX = 13, LANES_GAP_PX = 6;

// spec: {series: [{name, color, at_ns, values}], spans: [{name, from_ns, to_ns}], lanes: [{name, color, spans}], y, format, label, at: ns of a marker or null}
function linesOverTime(spec, width, height = 226) {
  const {limits = [], lanes = []} = spec, lanesPx = lanes.length && LANES_GAP_PX + lanes.length * LANE_PX;
  const [svg, room] = frame(width, height + lanesPx, {x: SINCE, y: spec.y, above: spec.spans.length ? 20 : 6, below: 24 + lanesPx});
  const {left, right, top, bottom} = room, most = largest(spec.series) === null ? null : spec.top ?? Math.max(largest(spec.series), ...limits.map(({value}) => value));
  if (most === null) return empty(svg, room);
  const end = most * 1.08 || 1, y = linearScale([0, end], [bottom, top]);
  const x = timeAxis(svg, spec, room, lanesPx);
  yAxis(svg, y, ticksOf(end, spec.format), spec.format, left, right);
  // Between points beyond the axis there is no line, which would look like a rate that stays the same.
  const isAbove = (value) => value === undefined || value > end;
  for (const {values, at_ns: at, color} of spec.series) svg.append(line(values.map((value, index) =>
    value === null || [value, values[index - 1], values[index + 1]].every(isAbove) ? null : [x(at[index]), y(Math.min(value, end))]), color));
  for (const {value, name} of limits) {
    const at = y(Math.min(value, end));
    svg.append(s("line", {class: "mark", x1: left, x2: right, y1: at, y2: at}),
      s("text", {class: "strong of-mark", x: left + 4, y: at - 5}, name));
  }
  lanes.forEach(({name, color, spans}, index) => {
    const low = bottom + LANES_GAP_PX + (index + 1) * LANE_PX;
    svg.append(s("text", {class: "lane", x: left - 4, y: low - 1, "text-anchor": "end"}, name),
      ...spans.map(([from, to]) => s("rect", {x: x(from), y: low - LANE_PX + 4, width: Math.max(Math.min(x(to), right) - x(from) - 1.5, 1.5), height: LANE_PX - 4, fill: color})));
  });
  // What goes beyond the axis is named where it does.
  let above = 0;
  for (const one of spec.top ? spec.series : []) {
    const highest = Math.max(...one.values.filter((value) => value !== null));
    if (!(highest > end)) continue;
    const at = x(one.at_ns[one.values.indexOf(highest)]), isLate = at > (left + right) / 2;
    svg.append(s("text", {class: "strong of-mark", x: isLate ? at - 8 : at + 8, y: top + 12 + 15 * above++, "text-anchor": isLate ? "end" : "start",
      style: `fill: ${one.color}`}, `▲ up to ${spec.format(highest)}`));
  }
  return withTimeCursor(svg, x, spec, room);
}

// The same, each in a row of its own: what rises and falls one after the other stays apart.
function rowsOverTime(spec, width) {
  const isNarrow = width < 560, rowPx = isNarrow ? 40 : 30, widest = Math.max(0, ...spec.series.map((one) => one.name.length)), most = largest(spec.series);
  const [svg, room] = frame(width, spec.series.length * rowPx + (spec.spans.length ? 60 : 46) + TITLE_PX, {x: SINCE, above: spec.spans.length ? 20 : 6,
    y: `${spec.y}, each row from 0 to ${tickText(most || 0, spec.format)}`, left: isNarrow ? 4 : Math.min(widest * CHAR_PX + 10, width * 0.3)});
  const {left, right, top} = room;
  if (most === null) return empty(svg, room);
  const x = timeAxis(svg, spec, room);
  spec.series.forEach((one, index) => {
    const low = top + (index + 1) * rowPx - 2, y = linearScale([0, most || 1], [low, top + index * rowPx + (isNarrow ? 17 : 4)]);
    const points = steps(one.values.map((value, at) => [x(one.at_ns[at]), y(value ?? 0)]));
    const first = points[0], last = points[points.length - 1];
    svg.append(s("line", {class: "grid", x1: left, x2: right, y1: low, y2: low}),
      s("text", isNarrow ? {x: left, y: low - rowPx + 14} : {x: left - 8, y: low - rowPx / 2 + 6, "text-anchor": "end"}, one.name));
    if (points.length) svg.append(s("path", {d: `${path([[first[0], low], ...points, [last[0], low]])}Z`, fill: one.color, opacity: 0.8}));
  });
  return withTimeCursor(svg, x, spec, room);
}

// A value holds until the next one.
const steps = (points) => points.flatMap((point, index) => index ? [[point[0], points[index - 1][1]], point] : [point]);

function largest(series) {
  const values = series.flatMap((one) => one.values).filter((value) => value !== null);
  return values.length ? Math.max(...values) : null;
}

// The axis of the time from 0 to the last instant, some way below the room, and the spans; gives its scale.
function timeAxis(svg, spec, room, belowPx = 0) {
  const {left, right, top, bottom} = room, ends = spec.series.flatMap((one) => [one.at_ns[0], one.at_ns[one.at_ns.length - 1]]).filter((at) => at !== undefined);
  const fromNs = Math.min(0, ...ends), toNs = Math.max(...ends, 1), x = linearScale([fromNs, toNs], [left, right]);
  for (const {name, from_ns: from, to_ns: to} of spec.spans) {
    const start = x(Math.max(from, fromNs)), end = x(Math.min(to, toNs)), half = name.length * CHAR_PX / 2;
    svg.append(s("rect", {class: "span", x: start, width: Math.max(end - start, 1), y: top, height: bottom - top + belowPx}),
      s("text", {x: Math.max(Math.min((start + end) / 2, right - half), left + half), y: top - 6, "text-anchor": "middle"}, name));
  }
  if (belowPx) svg.append(base(room));
  xAxis(svg, x, x.ticks(Math.floor((right - left) / 80)), timeFormat(toNs - fromNs), {...room, bottom: bottom + belowPx});
  svg.timeAt = x.invert;
  return x;
}

// A marker where the slider stands, and the values of all series at the instant that one points at.
function withTimeCursor(svg, x, spec, room) {
  if (spec.at !== null && spec.at !== undefined) {
    const at = Math.min(Math.max(x(spec.at), room.left), room.right);
    svg.append(s("line", {class: "now", x1: at, x2: at, y1: room.top, y2: room.bottom}));
  }
  const longest = spec.series.reduce((most, one) => one.at_ns.length > most.at_ns.length ? one : most);
  const items = longest.at_ns.map((at) => ({x: x(at), y: room.top + 20, at, tip: () => ({title: timeFormat(1e9)(+(at / 1e9).toFixed(2) * 1e9),
    rows: spec.series.map((one) => [one.name, spec.format(valueAt(one, at))])})}));
  return withLine(svg, room, items, spec.label);
}

// Index of the last instant that is not after `ns`; the first one before all.
function indexAt(instants, ns) {
  let low = 0, high = instants.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (instants[middle] <= ns) low = middle; else high = middle - 1;
  }
  return low;
}

const valueAt = ({at_ns: instants, values}, ns) => instants.length ? values[indexAt(instants, ns)] : null;

// Twice as much and half as much are equally far from no change.
const logRatio = (value) => Math.log(Math.max(1 + value, 1e-9));
const CHANGES = [[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 9, 19, 49, 99, 999, 9999, 999999],
  [-0.01, -0.02, -0.05, -0.1, -0.2, -0.33, -0.5, -0.8, -0.9, -0.95, -0.99, -0.999, -0.9999]];

// The range of an axis that shows every change; intervals that go much farther end in an arrow.
function ratioRange(rows) {
  const changes = rows.flatMap((row) => [row.change, ...row.limits || []]).map(logRatio);
  const ends = rows.flatMap((row) => row.low === null || row.high === null ? [] : [logRatio(row.low), logRatio(row.high)]);
  const cap = 2.5 * Math.max(Math.log(1.02), ...changes.map(Math.abs));
  const low = Math.min(...changes, ...ends.map((end) => Math.max(end, -cap)), 0), high = Math.max(...changes, ...ends.map((end) => Math.min(end, cap)), 0);
  const room = 0.08 * (high - low || Math.log(1.02));
  return [low - room, high + room];
}

// Changes to write at an axis, from no change outwards, as many as have room.
function ratioTicks(x, low, high) {
  const ticks = [0];
  for (const changes of CHANGES) {
    let last = x(0);
    for (const value of changes.filter((each) => logRatio(each) >= low && logRatio(each) <= high)) {
      if (Math.abs(x(value) - last) < 66) continue;
      ticks.push(value);
      last = x(value);
    }
  }
  return ticks;
}

const ratioText = (value) => !value ? "0" : value >= 9 ? `×${count(Math.round(value + 1))}` : `${value < 0 ? "−" : "+"}${+Math.abs(value * 100).toPrecision(3)}%`;

// spec: {intervals: [{name, change, low, high, color, text}], label}
function changeIntervals(spec, width) {
  const rowPx = 30, rows = spec.intervals;
  const widest = Math.max(0, ...rows.map(({name, verdict}) => Math.max(name.length * CHAR_PX, verdict.length * SMALL_CHAR_PX)));
  const [svg, room] = frame(width, 30 + rows.length * rowPx + TITLE_PX, {x: "change, with its interval", left: Math.min(widest + 12, width * 0.34), right: width - 26});
  const {left, right, top, bottom} = room;
  const measured = rows.filter((row) => row.change !== null);
  if (!measured.length) return empty(svg, room);
  const [low, high] = ratioRange(measured), scale = linearScale([low, high], [left + 12, right]); // room for an arrow
  const x = (value) => scale(Math.min(Math.max(logRatio(value), low), high));
  xAxis(svg, x, ratioTicks(x, low, high), ratioText, room);
  svg.append(s("line", {class: "recorded", x1: x(0), x2: x(0), y1: top, y2: bottom}));
  const items = [];
  rows.forEach((row, index) => {
    const y = top + (index + 0.5) * rowPx;
    svg.append(s("text", {x: left - 8, y: row.verdict ? y : y + 4, "text-anchor": "end"}, row.name),
      s("text", {class: "lane", x: left - 8, y: y + 11, "text-anchor": "end"}, row.verdict));
    if (row.change === null) { svg.append(s("text", {x: x(0) + 8, y: y + 4}, "not measured")); return; }
    if (row.low !== null && row.high !== null) {
      svg.append(s("line", {x1: x(row.low), x2: x(row.high), y1: y, y2: y, stroke: row.color, "stroke-width": 3, "stroke-linecap": "round"}));
      for (const [end, way] of [[row.low, -1], [row.high, 1]]) {
        const at = logRatio(end);
        if (at < low || at > high) svg.append(s("path", {d: `M${x(end) + way * 9} ${y}l${-way * 8} -5v10Z`, fill: row.color}));
      }
    }
    for (const limit of row.limits || []) {
      const at = x(limit);
      svg.append(s("line", {class: "limit", x1: at, x2: at, y1: y - 13, y2: y + 13}), s("text", {class: "strong of-mark", x: at + (limit < 0 ? -5 : 5), y: y - 5, "text-anchor": limit < 0 ? "end" : "start"}, "limit"));
    }
    svg.append(s("circle", {cx: x(row.change), cy: y, r: 5, fill: row.color, stroke: "var(--card)", "stroke-width": 1.5}));
    items.push({x: x(row.change), y, isFree: true, tip: () => ({title: row.name, rows: [["change", change(row.change)],
      ...row.low === null ? [] : [["interval", `${change(row.low)} … ${change(row.high)}`]], ...row.verdict ? [["verdict", row.verdict]] : []], text: row.text})});
  });
  svg.append(hit(room));
  return items.length ? withCursor(svg, items, spec.label, () => {}) : svg;
}
