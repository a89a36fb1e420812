// Scales and their ticks. A scale maps a value to a place in pixels and knows where its labels go.

// Room for a letter: somewhat more than most take in the fonts of the page, of bold ones, and of small ones.
const CHAR_PX = 7, STRONG_CHAR_PX = 8, SMALL_CHAR_PX = 6;

function linearTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-9); at++) ticks.push(+(at * step).toPrecision(12));
  return ticks;
}

function logTicks(low, high, wanted) {
  const of = (factors) => {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const factor of factors) {
        const value = +(factor * 10 ** power).toPrecision(6);
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
      }
    }
    return ticks;
  };
  const fine = [of([1, 2, 5]), of([1, 3]), of([1])].find((ticks) => ticks.length <= wanted);
  if (fine) return fine;
  const decades = of([1]);
  return decades.filter((_, index) => index % Math.ceil(decades.length / wanted) === 0);
}

// domain: [low, high]; range: [from px, to px]
function linearScale(domain, range) {
  const [low, high] = domain[0] === domain[1] ? [domain[0], domain[0] + 1] : domain;
  const scale = (value) => range[0] + (value - low) / (high - low) * (range[1] - range[0]);
  scale.invert = (px) => low + (px - range[0]) / (range[1] - range[0]) * (high - low);
  scale.ticks = (wanted) => linearTicks(low, high, wanted);
  return scale;
}

function logScale(domain, range) {
  const [low, high] = domain.map(Math.log10);
  const span = high - low || 1;
  const scale = (value) => range[0] + (Math.log10(Math.max(value, domain[0])) - low) / span * (range[1] - range[0]);
  scale.invert = (px) => 10 ** (low + (px - range[0]) / (range[1] - range[0]) * span);
  scale.ticks = (wanted) => logTicks(domain[0], domain[1], wanted);
  return scale;
}

// The next round values around [low, high], for a log axis that begins and ends at a tick.
function roundLog(low, high) {
  const steps = [1, 2, 5, 10];
  const down = 10 ** Math.floor(Math.log10(low)), up = 10 ** Math.floor(Math.log10(high));
  const from = [...steps].reverse().map((step) => step * down).find((value) => value <= low * 1.0001);
  const to = steps.map((step) => step * up).find((value) => value >= high * 0.9999);
  return from === to ? [from / 2, to * 2] : [from, to];
}

// Ticks from 0 on, round in the unit that bytes are written in.
function ticksOf(most, format) {
  const unit = format === bytes ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
  const few = linearTicks(0, most / unit, 4), ticks = few.length > 2 ? few : linearTicks(0, most / unit, 6);
  return ticks.map((tick) => tick * unit);
}

function yAxis(svg, scale, ticks, format, left, right) {
  for (const value of ticks) {
    const y = scale(value);
    svg.append(s("line", {class: "grid", x1: left, x2: right, y1: y, y2: y}),
      s("text", {x: left - 6, y: y + 4, "text-anchor": "end"}, tickText(value, format)));
  }
}

function xAxis(svg, scale, ticks, format, room) {
  const {bottom, width} = room;
  for (const value of ticks) {
    const x = scale(value), text = tickText(value, format);
    const half = text.length * CHAR_PX / 2;
    svg.append(s("line", {class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4}),
      s("text", {x: Math.min(x, width - half - 4), y: bottom + 19, "text-anchor": "middle"}, text));
  }
  svg.append(base(room));
}

const SLANTED_PX = 18;

// Labels under bands; slanted, then thinned out, where they would touch.
function bandAxis(svg, labels, centers, bottom) {
  const step = centers.length > 1 ? centers[1] - centers[0] : Infinity;
  const widest = Math.max(...labels.map((label) => label.length)) * CHAR_PX;
  const isSlanted = widest + 6 > step;
  const every = isSlanted ? Math.max(1, Math.ceil(SLANTED_PX / step)) : 1;
  labels.forEach((label, index) => {
    if (index % every) return;
    const x = centers[index];
    svg.append(s("text", isSlanted
      ? {x: x + 4, y: bottom + 12, "text-anchor": "end", transform: `rotate(-40 ${x + 4} ${bottom + 12})`}
      : {x, y: bottom + 19, "text-anchor": "middle"}, label));
  });
}

// Room under an axis of bands.
function bandRoom(labels, step) {
  const widest = Math.max(...labels.map((label) => label.length)) * CHAR_PX;
  return widest + 6 > step ? Math.min(14 + widest * 0.68, 90) : 24;
}
