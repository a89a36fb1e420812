// Charts: each takes a place and what to draw, and draws again when its width changes.

// draw(width) gives an <svg>.
function responsive(draw) {
  const place = h("div", {class: "chart"});
  let last = 0;
  const update = () => {
    const width = Math.floor(place.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      place.replaceChildren(draw(width));
    }
  };
  place.redraw = () => { last = 0; update(); };
  new ResizeObserver(update).observe(place);
  return place;
}

function chart(title, subtitle, legendItems, draw) {
  return h("figure", {}, h("figcaption", {}, h("h3", {}, term(title, subtitle)), legendItems ? legend(legendItems) : null),
    responsive(draw));
}

function canvas(width, height, extra) {
  return s("svg", {viewBox: `0 0 ${width} ${height}`, width, height, ...extra});
}

const LEFT_PX = 58, TITLE_PX = 16, LABEL_GAP_PX = 8;

// A drawing with the titles of its axes: x below its end, y above it; and its room in between, without what is needed above and below.
function frame(width, height, {x, y, above = 6, below = 24, left = LEFT_PX, right = width - 14, ...extra}) {
  const svg = canvas(width, height, extra);
  if (y) svg.append(s("text", {class: "axis-title", x: 0, y: 11}, `↑ ${y}`));
  if (x) svg.append(s("text", {class: "axis-title", x: right, y: height - 3, "text-anchor": "end"}, `${x} →`));
  return [svg, {left, right, width, top: above + (y ? TITLE_PX : 0), bottom: height - below - TITLE_PX}];
}

function empty(svg, {left, right, top, bottom}) {
  svg.append(s("text", {x: (left + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle"}, "no values"));
  return svg;
}

// A cursor that follows the pointer or the arrow keys from item to item.
// items: [{x, y, tip}], places in the drawing; onMove(item | null) marks one.
function withCursor(svg, items, label, onMove) {
  if (!items.length) return svg;
  let current = -1;
  const go = (index, clientX, clientY) => {
    current = Math.max(0, Math.min(items.length - 1, index));
    const item = items[current];
    onMove(item);
    const box = svg.getBoundingClientRect(), factor = box.width / svg.viewBox.baseVal.width;
    tip.show(item.tip(), clientX ?? box.left + item.x * factor, clientY ?? box.top + item.y * factor);
  };
  const leave = () => { onMove(null); tip.hide(); };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect(), factor = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * factor, y = (event.clientY - box.top) * factor;
    let best = 0, least = Infinity;
    items.forEach((item, index) => {
      const distance = Math.abs(item.x - x) + (item.isFree ? Math.abs(item.y - y) : 0);
      if (distance < least) [best, least] = [index, distance];
    });
    return best;
  };
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${label}; arrow keys go from value to value`);
  svg.addEventListener("pointermove", (event) => go(nearest(event), event.clientX, event.clientY));
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) go(Math.max(current, 0)); });
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const rows = items[0].columns || 1;
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: rows, ArrowUp: -rows, Home: -items.length, End: items.length}[event.key];
    if (step === undefined) return;
    event.preventDefault();
    go(current + step);
  });
  return svg;
}

const hit = ({left, right, top, bottom}) => s("rect", {class: "hit", x: left, y: top, width: Math.max(right - left, 1), height: bottom - top});

// The cursor as an upright line within a room.
function withLine(svg, room, items, label) {
  const line = s("line", {class: "cursor", y1: room.top, y2: room.bottom, visibility: "hidden"});
  svg.append(line, hit(room));
  return withCursor(svg, items, label, (item) => {
    line.setAttribute("visibility", item ? "visible" : "hidden");
    if (item) ["x1", "x2"].forEach((end) => line.setAttribute(end, item.x));
  });
}

// The cursor as a frame around an item's {left, right, top, bottom}.
function withFocus(svg, room, items, label) {
  const focus = s("rect", {class: "focus", visibility: "hidden"});
  svg.append(hit(room), focus);
  return withCursor(svg, items, label, (item) => {
    focus.setAttribute("visibility", item ? "visible" : "hidden");
    if (!item) return;
    const {left, right, top = room.top, bottom = room.bottom} = item;
    Object.entries({x: left, y: top, width: Math.max(right - left, 2), height: bottom - top}).forEach((each) => focus.setAttribute(...each));
  });
}

function path(points) {
  let text = "", isOpen = false;
  for (const point of points) {
    if (point === null) { isOpen = false; continue; }
    text += `${isOpen ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    isOpen = true;
  }
  return text;
}

const line = (points, color, more) => s("path", {d: path(points), fill: "none", stroke: color, "stroke-width": 2, "stroke-linejoin": "round", ...more});
const base = ({left, right, bottom}) => s("line", {class: "axis", x1: left, x2: right, y1: bottom, y2: bottom});
const onLog = (name, isLog) => isLog ? `${name}, log scale` : name;

// Names of marks above a room, in as many rows as it takes: those that would touch stand one above the other.
function markNames({left, right, top}, marks, rowsMax) {
  const taken = [];
  return marks.map(([x, name, isStrong = true]) => {
    const half = name.length * STRONG_CHAR_PX / 2, middle = Math.min(Math.max(x, left + half), right - half);
    const rows = [...Array(rowsMax).keys()];
    const row = rows.find((number) => taken.every(([other, from, to]) => other !== number || middle + half < from || middle - half > to)) ?? rowsMax - 1;
    taken.push([row, middle - half - LABEL_GAP_PX, middle + half + LABEL_GAP_PX]);
    const y = top - 7 - 14 * row;
    return {y: y + 3, text: s("text", {class: isStrong ? "strong of-mark" : "of-mark", x: middle, y, "text-anchor": "middle"}, name)};
  });
}

// Curves over settings.
// spec: {labels, by, y, recorded: index, marks: [[index, name]], isLog, format, tip(index),
//   series: [{name, color, values, band: [[low, high] | null]}]}
function curves(spec, width) {
  const values = spec.series.flatMap((one) => one.values.flatMap((value, index) => [value, ...one.band && one.band[index] || []]))
    .filter((value) => value !== null && value !== undefined && !(spec.isLog && value <= 0));
  const step = (width - 24 - LEFT_PX) / spec.labels.length, rows = Math.min(spec.marks.length, 3);
  const [svg, room] = frame(width, 266, {x: spec.by, y: onLog(spec.y, spec.isLog), above: 6 + 14 * rows, below: bandRoom(spec.labels, step), right: width - 10});
  const {left, right, top, bottom} = room;
  if (!values.length) return empty(svg, room);
  const domain = spec.isLog ? roundLog(Math.min(...values), Math.max(...values)) : [0, Math.max(...values) * 1.12 || 1];
  const y = (spec.isLog ? logScale : linearScale)(domain, [bottom, top]);
  yAxis(svg, y, spec.isLog ? y.ticks(7) : ticksOf(domain[1], spec.format), spec.format, left, right);
  const centers = spec.labels.map((_, index) => left + (index + 0.5) * step);
  bandAxis(svg, spec.labels, centers, bottom);
  svg.append(base(room));
  const names = markNames(room, spec.marks.map(([index, name]) => [centers[index], name, index !== spec.recorded]), 3);
  spec.marks.forEach(([index], number) => svg.append(s("line", {class: index === spec.recorded ? "recorded" : "mark",
    x1: centers[index], x2: centers[index], y1: names[number].y, y2: bottom})));
  if (spec.now >= 0 && spec.labels.length > 1) svg.append(s("line", {class: "now", x1: centers[spec.now], x2: centers[spec.now], y1: top, y2: bottom}));
  svg.append(...names.map(({text}) => text)); // in front of the lines of other marks
  for (const one of spec.series) {
    const at = one.values.map((value, index) => value === null ? null : [centers[index], y(value)]);
    if (one.band) {
      const bound = (end) => one.band.map((each, index) => each && [centers[index], y(each[end])]).filter(Boolean);
      svg.append(s("path", {class: "band", d: `${path([...bound(1), ...bound(0).reverse()])}Z`, fill: one.color, opacity: 0.15}));
    }
    if (spec.isBars) {
      const wide = Math.min(0.6 * step / spec.series.length, 60), first = -wide * spec.series.length / 2 + wide * spec.series.indexOf(one);
      at.filter(Boolean).forEach(([x, high]) => svg.append(s("rect", {x: x + first, y: high, width: wide - 2, height: Math.max(bottom - high, 1), fill: one.color})));
      continue;
    }
    svg.append(line(at, one.color, one.isBound ? {"stroke-dasharray": "6 4"} : {}));
    at.forEach((point, index) => {
      const isInvalid = spec.marks.some(([place, name]) => place === index && name === "invalid"); // hollow
      if (point) svg.append(s("circle", {cx: point[0], cy: point[1], r: index === spec.recorded ? 5.5 : 3.5, fill: isInvalid ? "var(--card)" : one.color,
        stroke: isInvalid ? "var(--edge)" : "var(--card)", "stroke-width": index === spec.recorded || isInvalid ? 2 : 1}));
    });
  }
  return withLine(svg, room, centers.map((x, index) => ({x, y: (top + bottom) / 2, tip: () => spec.tip(index)})), spec.label);
}

// Bars over a scale of edges, stacked.
// spec: {edges: [[low, high], …], x, y, isLog, xFormat, yFormat, series: [{name, color, values}], marks: [[value, name]], tip(index)}
function histogram(spec, width) {
  const marks = (spec.marks || []).filter(([value]) => value !== null);
  const [svg, room] = frame(width, 246, {x: spec.x, y: spec.y, above: marks.length ? 34 : 6}), {left, right, top, bottom} = room;
  const totals = spec.edges.map((_, index) => spec.series.reduce((sum, one) => sum + one.values[index], 0));
  const most = Math.max(...totals, 0);
  if (!most) return empty(svg, room);
  const low = Math.min(...spec.edges.map(([from]) => from)), high = Math.max(...spec.edges.map(([, to]) => to));
  const x = (spec.isLog ? logScale : linearScale)(spec.isLog ? [Math.max(low, 1), high] : [low, high], [left, right]);
  const y = linearScale([0, most * 1.05], [bottom, top]);
  yAxis(svg, y, y.ticks(4), spec.yFormat, left, right);
  const items = spec.edges.map(([from, to], index) => {
    const x0 = x(Math.max(from, spec.isLog ? 1 : from)), x1 = x(to);
    const gap = x1 - x0 > 4 ? 1 : 0;
    let under = 0;
    for (const one of spec.series) {
      if (!one.values[index]) continue;
      const y0 = y(under), y1 = y(under += one.values[index]);
      svg.append(s("rect", {x: x0 + gap / 2, width: Math.max(x1 - x0 - gap, 1), y: y1, height: Math.max(y0 - y1, 0.5), fill: one.color}));
    }
    return {x: (x0 + x1) / 2, y: y(totals[index]), left: x0 - 1, right: x1 + 1, tip: () => spec.tip(index)};
  });
  xAxis(svg, x, x.ticks(Math.floor((right - left) / 75)), spec.xFormat, room);
  markNames(room, marks.map(([value, name]) => [x(value), name]), 2).forEach(({y: from, text}, index) => {
    const at = x(marks[index][0]);
    svg.append(s("line", {class: "recorded", x1: at, x2: at, y1: from, y2: bottom}), text);
  });
  return withFocus(svg, room, items, spec.label);
}

const PERCENTILES = [[0, "0"], [0.5, "50"], [0.9, "90"], [0.99, "99"], [0.999, "99.9"], [0.9999, "99.99"], [0.99999, "99.999"]];

// Lines over percentiles, spread so that each nine has the same room. The cursor follows the first.
// spec: {series: [{name, color, points: [[q, value], …]}], format, label, tip(q, value)}
function percentiles(spec, width) {
  const [svg, room] = frame(width, 246, {x: "percentile of the records", y: onLog("latency", true)}), {left, right, top, bottom} = room;
  const all = spec.series.flatMap((one) => one.points), [first] = spec.series;
  if (!all.length) return empty(svg, room);
  const place = (q) => -Math.log10(1 - q);
  const most = Math.max(...all.map(([q]) => place(q)), 1);
  const x = linearScale([0, most], [left, right]);
  const values = all.map(([, value]) => Math.max(value, 1));
  const y = logScale(roundLog(Math.min(...values), Math.max(...values)), [bottom, top]);
  yAxis(svg, y, y.ticks(6), spec.format, left, right);
  let taken = -Infinity;
  for (const [q, name] of PERCENTILES) {
    if (place(q) > most + 1e-9) continue;
    const at = x(place(q)), half = (name.length + 2) * CHAR_PX / 2, middle = Math.min(at, width - half);
    svg.append(s("line", {class: "grid", x1: at, x2: at, y1: top, y2: bottom}));
    if (middle - half < taken + LABEL_GAP_PX) continue;
    svg.append(s("text", {x: middle, y: bottom + 19, "text-anchor": "middle"}, `${name}%`));
    taken = middle + half;
  }
  svg.append(base(room));
  for (const one of [...spec.series].reverse()) {
    const points = one.points.map(([q, value]) => [x(place(q)), y(Math.max(value, 1))]);
    svg.append(line(points, one.color, one === first ? {} : {"stroke-dasharray": "5 4"}));
    if (one !== first) svg.append(...points.map(([cx, cy]) => s("circle", {cx, cy, r: 3, fill: one.color})));
  }
  const items = first.points.map(([q, value]) => ({x: x(place(q)), y: y(Math.max(value, 1)), tip: () => spec.tip(q, value)}));
  return withLine(svg, room, items, spec.label);
}

// One bar a row, split; shares sum to 1.
// spec: {rows: [{name, shares: {part: share}}], parts: [[part, name, color, color of text on it]], x, tip(row, part), label}
function stackedBars(spec, width) {
  const rowPx = 24, widest = Math.max(0, ...spec.rows.map((row) => row.name.length));
  const [svg, room] = frame(width, 4 + spec.rows.length * rowPx + 24 + TITLE_PX,
    {x: `share of ${spec.x}`, above: 4, left: Math.min(widest * CHAR_PX + 10, width * 0.36)});
  const {left, right, top} = room, fits = Math.floor((left - 10) / CHAR_PX);
  const x = linearScale([0, 1], [left, right]), items = [];
  spec.rows.forEach((row, index) => {
    const y = top + index * rowPx;
    const name = row.name.length > fits ? `${row.name.slice(0, fits - 1)}…` : row.name;
    svg.append(s("text", {x: left - 6, y: y + 15, "text-anchor": "end"}, name));
    let from = 0;
    for (const [part, , color, ink] of spec.parts) {
      const share = row.shares[part] || 0;
      const x0 = x(from), x1 = x(from += share);
      if (share) svg.append(s("rect", {x: x0, y: y + 3, width: Math.max(x1 - x0, 0.3), height: rowPx - 6, fill: color}));
      if (share > 0.005) {
        items.push({x: (x0 + x1) / 2, y: y + rowPx / 2, left: x0, right: x1, top: y + 2, bottom: y + rowPx - 2, isFree: true,
          tip: () => spec.tip(row, part)});
        if (x1 - x0 > 44) {
          svg.append(s("text", {class: "bar", x: (x0 + x1) / 2, y: y + 16, "text-anchor": "middle",
            style: `fill: ${ink}; pointer-events: none; font-weight: 600`}, percent(share, 0)));
        }
      }
    }
  });
  xAxis(svg, x, [0, 0.25, 0.5, 0.75, 1], (value) => percent(value, 0), room);
  return withFocus(svg, room, items, spec.label);
}
