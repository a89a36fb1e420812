// The places of data between two tasks, step by step: a slider over time, and in each place how full it is.

const PLAY_MS = 120;

function placesPart({names, meanings, runs, curve, notes, ends, channels, unit}) {
  const shown = runs.filter((run) => run.steps.length);
  if (!shown.length) return h("p", {class: "note"}, "No samples were taken.");
  const longest = shown.reduce((most, run) => run.steps.length > most.steps.length ? run : most);
  const instants = longest.steps.map((step) => step.at_ns);
  const tanks = shown.map((run) => placesOfRun(run, names, meanings, ends, channels, unit));
  const slider = h("input", {type: "range", min: 0, max: instants.length - 1, step: 1, value: 0, "aria-label": "time", oninput: () => go(+slider.value)});
  const clock = h("output", {class: "clock"});
  const play = h("button", {type: "button", class: "play", onclick: () => timer ? stop() : start()});
  let timer = null, now = 0, isMoved = false;
  const curvePlace = curve ? responsive((width) => {
    const svg = overTimeChart(curve, width, innerHeight > 800 ? 190 : 140, instants[now]);
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      stop();
      if (svg.timeAt) go(indexAt(instants, svg.timeAt((event.clientX - box.left) * width / box.width)));
    });
    return svg;
  }) : null;

  function go(index) {
    isMoved = true;
    now = Math.min(Math.max(index, 0), instants.length - 1);
    slider.value = now;
    const at = instants[now];
    clock.textContent = `${(at / 1e9).toFixed(2)} s`;
    slider.setAttribute("aria-valuetext", clock.textContent);
    tanks.forEach((one) => one.show(at));
    if (curvePlace) curvePlace.redraw();
  }
  function stop() { clearInterval(timer); timer = null; play.textContent = "play"; }
  function start() {
    if (!isMoved || now === instants.length - 1) go(0);
    play.textContent = "pause";
    timer = setInterval(() => now < instants.length - 1 && play.isConnected ? go(now + 1) : stop(), PLAY_MS);
  }
  const step = (by, text, label) => h("button", {type: "button", "aria-label": label, onclick: () => { stop(); go(now + by); }}, text);
  stop();
  document.addEventListener("instant", ({detail: at}) => { stop(); go(nearestTo(instants, at)); });
  const part = h("div", {class: "places"},
    h("div", {class: "controls steps"}, play, step(-1, "◂", "one step back"), slider, step(1, "▸", "one step on"), clock),
    curvePlace ? h("figure", {}, h("figcaption", {}, h("h3", {}, term(curve.title, curve.meaning)),
      legend((!curve.in_rows && legendOf(curve.series, curve.in_lanes)) || [])), curvePlace) : null,
    channels.length ? legend([...channels.map(({name, color}) => [name, colorOf(color)]), [`one queue of ${channels.length > 2 ? "all" : "both"}, in the order of sending`, stripes(channels)]]) : null,
    h("div", {class: "side-by-side"}, tanks.map((one) => one.element)),
    notes.map((note) => h("p", {class: "note small"}, note)));
  // The first look is where most lies in the places, within the spans if there are any: where the lesson is. Of pools that fill up
  // one after another it is where half of that is in use.
  const total = (one) => one.levels.reduce((sum, each) => sum + each, 0);
  const isTold = ({at_ns: at}) => !curve || !curve.spans.length || curve.spans.some((span) => at >= span.from_ns && at < span.to_ns);
  const steps = shown.flatMap((run) => run.steps), told = steps.filter(isTold);
  const fullest = (told.length ? told : steps).reduce((best, one) => total(one) > total(best) ? one : best);
  const half = unit === "share" && told.find((one) => total(one) >= total(fullest) / 2);
  go(indexAt(instants, (half || fullest).at_ns));
  isMoved = false;
  return part;
}

// Where a long name breaks.
const hyphenated = (name) => name.replace("subpartitions", "sub\u00adpartitions").replace(", ", "\n");

// Of what is not told apart: the colours of all channels.
const STRIPE_PX = 5;
const stripes = (channels) => `repeating-linear-gradient(-45deg, ${channels.map(({color}, index) =>
  `${colorOf(color)} ${index * STRIPE_PX}px ${(index + 1) * STRIPE_PX}px`).join(", ")})`;

// The data in a place: a layer for each channel, or one of all.
function layers(bytesOfChannels, channels) {
  if (!channels.length) return [];
  if (!bytesOfChannels || !bytesOfChannels.length) return [h("div", {class: "layer", style: `flex: 1; background: ${stripes(channels)}`})];
  return bytesOfChannels.map((held, index) => h("div", {class: "layer", style: `flex: ${held} 0 0; background: ${colorOf(channels[index].color)}`}));
}

// Runs are sampled at instants of their own.
function nearestTo(instants, ns) {
  const index = indexAt(instants, ns);
  return index + 1 < instants.length && instants[index + 1] - ns < ns - instants[index] ? index + 1 : index;
}

function placesOfRun(run, names, meanings, ends, channels, unit) {
  const format = FORMATS[unit], isShare = unit === "share";
  const instants = run.steps.map((step) => step.at_ns);
  const parts = names.map((name, index) => {
    const level = h("div", {class: "level"}), amount = h("div", {class: "amount"}), limit = h("div", {class: "bound"});
    const bound = run.bounds[index];
    return {level, amount, limit, bound, element: h("li", {class: "place"},
      h("div", {class: "tank"}, level), h("div", {class: "name"}, term(hyphenated(name), meanings[index])), amount, limit)};
  });
  const lines = h("div", {class: run.steps.some((one) => one.lines.length) ? "said small" : "small"});
  const way = h("div", {class: "way small"}, h("span", {}, `${ends[0]} →`), h("span", {}, `→ ${ends[1]}`));
  const clock = h("span", {class: "note"}); // of the sample that is shown
  const element = h("div", {class: "placed"}, h("h3", {}, run.name, clock), way, h("ol", {class: "tanks", style: `--tanks: ${parts.length}`}, parts.map((each) => each.element)), lines);
  function show(at) {
    const one = run.steps[nearestTo(instants, at)];
    clock.textContent = `, at ${(one.at_ns / 1e9).toFixed(2)} s`;
    parts.forEach(({level, amount, limit, bound, element: place}, index) => {
      const held = one.levels[index], isStuck = one.full.includes(index), share = isStuck ? 1 : bound ? Math.min(1, held / bound) : 0, isFull = share >= 0.9;
      level.replaceChildren(...layers(one.by_channel[index], channels));
      level.style.height = `${(100 * share).toFixed(1)}%`;
      place.classList.toggle("full", isFull);
      limit.textContent = isStuck ? "full" : !bound ? "not used" : isShare ? (isFull ? "full" : "") : `of ${format(bound)}${isFull ? ": full" : ""}`;
      amount.textContent = format(held);
    });
    lines.replaceChildren(...one.lines.map((line) => h("p", {}, line)));
  }
  return {element, show};
}
