// One channel over time: three plots and a strip of regimes above one axis. Drag to zoom, double
// click to reset; plus and minus and 0 do the same from the keyboard.

function timelinePart({names, channels, first, duration_ns: durationNs, panels, regimes}) {
  const state = {channel: first, range: null}, place = h("div"), where = h("span", {class: "small", "aria-live": "polite"});
  const reset = h("button", {type: "button", disabled: "", onclick: () => zoom(null)}, "reset zoom");
  let shown = null;
  function zoom(range) {
    const hadFocus = place.contains(document.activeElement);
    state.range = range;
    reset.disabled = !range;
    where.textContent = range ? `${timeFormat(1e9)(+range[0].toPrecision(6))} to ${timeFormat(1e9)(+range[1].toPrecision(6))}` : "";
    shown.redraw();
    if (hadFocus) place.querySelector("svg").focus({preventScroll: true});
  }
  function draw() {
    shown = responsive((width) => drawTimeline({...channels[state.channel], panels, parts: regimes}, durationNs, state, zoom, width));
    place.replaceChildren(shown);
  }
  draw();
  const picker = select("Channel", names.map((name, index) => [index, name]), first, (index) => { state.channel = Number(index); draw(); });
  return h("div", {}, h("div", {class: "controls"}, picker, reset, where),
    legend([...panels.map(({name, color, meaning}) => [name, colorOf(color), meaning, "thin"]), ...regimes.map(({name, color, meaning}) => [name, colorOf(color), meaning])]), place);
}

const POINT_PX = 7;
const FEW_POINTS = 40;

// The windows of a channel between two instants, joined until a point has room, as
// [{from, width, rate, backlog, backlogMax, credit, creditMin}]; null where nothing was sampled, and
// for the rate of a rest that is too short: whether a buffer came in it says nothing of how many do.
function joined(channel, fromNs, toNs, durationNs, points) {
  const {windows, window_ns: windowNs} = channel;
  const many = Math.max(1, Math.ceil((toNs - fromNs) / windowNs / points));
  const size = windowNs * many;
  const first = Math.floor(fromNs / size), last = Math.ceil(toNs / size) - 1;
  const found = Array.from({length: last - first + 1}, (_, index) => ({
    from: (first + index) * size, records: 0, buffers: 0, backlogSum: 0, credits: 0, creditSum: 0, backlogMax: null, creditMin: null,
  }));
  windows.from_ns.forEach((ns, index) => {
    const one = found[Math.floor(ns / size) - first];
    if (!one) return;
    one.records += windows.records[index];
    one.buffers += windows.buffers[index];
    one.backlogSum += windows.backlog_sum[index];
    one.credits += windows.credits[index];
    one.creditSum += windows.credit_sum[index];
    const [backlog, credit] = [windows.backlog_max[index], windows.credit_min[index]];
    if (backlog !== null) one.backlogMax = Math.max(one.backlogMax ?? 0, backlog);
    if (credit !== null) one.creditMin = Math.min(one.creditMin ?? Infinity, credit);
  });
  return found.map((one) => {
    const width = Math.min(size, durationNs - one.from);
    const rate = width < size / 2 ? null : one.records * 1e9 / width;
    return {...one, width, rate, backlog: one.buffers ? one.backlogSum / one.buffers : null,
      credit: one.credits ? one.creditSum / one.credits : null};
  });
}

function drawTimeline(channel, durationNs, zoom, onZoom, width) {
  const panelPx = 92, gapPx = 26, stripPx = 18, {panels, parts, regimes} = channel, hasStrip = parts.length > 0;
  const stripTop = panels.length * (panelPx + gapPx) + 14, below = hasStrip ? stripTop + stripPx + 6 : stripTop - gapPx + 8;
  const [svg, room] = frame(width, below + 24 + TITLE_PX, {x: SINCE, above: 18, class: "zoomable"}), {left, right, bottom} = room;
  const [fromNs, toNs] = zoom.range || [0, durationNs];
  const x = linearScale([fromNs, toNs], [left, right]);
  const shown = joined(channel, fromNs, toNs, durationNs, (right - left) / POINT_PX);
  const clip = `clip-${channel.channel}`;
  svg.append(s("clipPath", {id: clip}, s("rect", {x: left, y: 0, width: Math.max(right - left, 1), height: bottom})));

  panels.forEach((panel, number) => {
    const top = 18 + number * (panelPx + gapPx), low = top + panelPx;
    const keys = [panel.key, panel.extreme].filter(Boolean);
    const most = Math.max(0, ...shown.flatMap((one) => keys.map((key) => one[key] ?? 0)));
    const y = linearScale([0, most * 1.08 || 1], [low, top]);
    yAxis(svg, y, y.ticks(3), count, left, right);
    svg.append(s("text", {class: "strong", x: left, y: top - 6}, panel.name),
      s("g", {"clip-path": `url(#${clip})`}, keys.reverse().map((key) => curve(key, key === panel.key))));

    function curve(key, isMain) {
      const points = shown.map((one) => one[key] === null ? null : [x(one.from + one.width / 2), y(one[key])]);
      const isFew = points.filter(Boolean).length <= FEW_POINTS;
      const alone = points.filter((point, index) => point && (isFew || !points[index - 1] && !points[index + 1]));
      return s("g", {opacity: isMain ? 1 : 0.6},
        s("path", {d: path(points.filter(Boolean)), fill: "none", stroke: colorOf(panel.color), opacity: 0.35}),
        s("path", {d: path(points), fill: "none", stroke: colorOf(panel.color), "stroke-width": isMain ? 2 : 1, "stroke-linejoin": "round"}),
        alone.map(([cx, cy]) => s("circle", {class: "point", cx, cy, r: (isMain ? 2 : 1.2) + (isFew ? 1 : 0), fill: colorOf(panel.color)})));
    }
  });

  const strip = s("g", {"clip-path": `url(#${clip})`});
  if (hasStrip) svg.append(s("text", {class: "strong", x: left, y: stripTop - 6}, "where the time went"), strip);
  regimes.from_ns.forEach((start, index) => {
    const wide = regimes.width_ns[index];
    let at = start;
    for (const {key, color} of parts) {
      const ns = regimes[key][index];
      if (ns) strip.append(s("rect", {x: x(at), y: stripTop, width: Math.max(x(at + ns) - x(at), 0.2), height: stripPx, fill: colorOf(color)}));
      at += ns;
    }
    if (x(start + wide) - x(start) > 6) strip.append(s("line", {x1: x(start), x2: x(start), y1: stripTop, y2: stripTop + stripPx, stroke: "var(--card)"}));
  });
  xAxis(svg, x, x.ticks(Math.floor((right - left) / 80)), timeFormat(toNs - fromNs), room);

  const brush = s("rect", {class: "brush", y: 18, height: bottom - 18, visibility: "hidden"});
  svg.append(brush);
  withLine(svg, room, shown.map((one) => ({
    x: Math.min(Math.max(x(one.from + one.width / 2), left), right), y: 60, tip: () => timelineTip(channel, one),
  })), `channel ${channel.channel} over time`);
  addZoom(svg, x, brush, [left, right], [fromNs, toNs], durationNs, channel.window_ns, onZoom);
  return svg;
}

function addZoom(svg, x, brush, [left, right], [fromNs, toNs], durationNs, leastNs, onZoom) {
  let startPx = null;
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) * svg.viewBox.baseVal.width / box.width, left), right);
  };
  const zoomTo = (low, high) => {
    const spanNs = Math.max(high - low, leastNs * 4);
    const from = Math.max(0, Math.min((low + high - spanNs) / 2, durationNs - spanNs));
    const to = Math.min(durationNs, from + spanNs);
    onZoom(from <= 0 && to >= durationNs ? null : [from, to]);
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    startPx = place(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (startPx === null) return;
    const at = place(event);
    brush.setAttribute("visibility", "visible");
    brush.setAttribute("x", Math.min(at, startPx));
    brush.setAttribute("width", Math.abs(at - startPx));
  });
  svg.addEventListener("pointercancel", () => { startPx = null; brush.setAttribute("visibility", "hidden"); });
  svg.addEventListener("pointerup", (event) => {
    if (startPx === null) return;
    const edges = [startPx, place(event)].sort((a, b) => a - b);
    startPx = null;
    brush.setAttribute("visibility", "hidden");
    if (edges[1] - edges[0] > 5) { tip.hide(); zoomTo(...edges.map(x.invert)); }
  });
  svg.addEventListener("dblclick", () => { tip.hide(); onZoom(null); });
  svg.addEventListener("keydown", (event) => {
    const quarter = (toNs - fromNs) / 4;
    if (event.key === "+") zoomTo(fromNs + quarter, toNs - quarter);
    else if (event.key === "-") zoomTo(fromNs - 2 * quarter, toNs + 2 * quarter);
    else if (event.key === "0") onZoom(null);
  });
}

function timeFormat(spanNs) {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, ns]) => spanNs >= ns) || ["ns", 1];
  return (ns) => `${+(ns / size).toPrecision(6)} ${unit}`;
}

function timelineTip(channel, one) {
  const number = (value) => value === null ? MISSING : count(value);
  return {
    title: `from ${timeFormat(1e9)(one.from)}, for ${duration(one.width)}`,
    rows: [
      ["records/s", count(one.rate)],
      ["backlog, mean", number(one.backlog)],
      ["backlog, max", number(one.backlogMax)],
      ["credit, mean", number(one.credit)],
      ["credit, min", number(one.creditMin)],
      ...regimesWithin(channel, one.from, one.from + one.width),
    ],
  };
}

// The shares of the regimes between two instants, as if each window's were spread evenly over it.
function regimesWithin({regimes, parts}, from, to) {
  const spent = parts.map(() => 0);
  regimes.from_ns.forEach((start, index) => {
    const wide = regimes.width_ns[index], both = Math.min(to, start + wide) - Math.max(from, start);
    if (both > 0) parts.forEach(({key}, number) => { spent[number] += regimes[key][index] * both / wide; });
  });
  return parts.map(({name}, number) => [name, spent[number] / (to - from)])
    .filter(([, share]) => share >= 0.005).map(([name, share]) => [name, percent(share, 0)]);
}
