// Predictions for several settings: a slider for each, the figures where the sliders stand, and curves along the last one that was moved.

function gridPart({sliders, figures, points, parts, recorded, base: baseName, along: first, meaning, bars_title: barsTitle, bars_meaning: barsMeaning}) {
  const base = recorded === null ? null : points[recorded], place = h("div");
  let along = first, now = sliders.map((slider) => slider.at);
  const find = (at) => points.find((point) => point.at.every((value, index) => value === at[index]));
  const with_ = (index, value) => now.map((other, number) => number === index ? value : other);
  // The values of a slider that were predicted with the others where they stand.
  const values = (index) => sliders[index].labels.map((_, value) => value).filter((value) => find(with_(index, value)));
  const distance = (point) => point.at.reduce((sum, value, index) => sum + Math.abs(value - now[index]), 0);
  const controls = sliders.map((slider, index) => {
    // Where that value was not predicted with the others, these move to the nearest ones that were.
    const input = h("input", {type: "range", min: 0, max: slider.labels.length - 1, step: 1, "aria-label": slider.name, oninput: () => {
      along = index;
      now = points.filter((point) => point.at[index] === +input.value).reduce((best, one) => distance(one) < distance(best) ? one : best).at;
      draw();
    }});
    return {input, output: h("output", {class: "clock"}), reset: () => {
      const label = slider.labels[now[index]];
      input.value = now[index];
      controls[index].output.textContent = base && base.at[index] === now[index] ? `${label} (${baseName})` : label;
      input.setAttribute("aria-valuetext", label);
    }};
  });

  const bandOf = (ranges) => ranges.some(Boolean) ? {low: ranges.map((range) => range?.[0] ?? null), high: ranges.map((range) => range?.[1] ?? null)} : {low: [], high: []};
  function facts(point) {
    return h("dl", {class: "facts"}, figures.map((figure, index) => {
      const value = point.values[index], before = base && base !== point ? base.values[index] : null;
      const range = point.ranges[index], format = FORMATS[figure.unit];
      return h("div", {class: "fact"}, h("dt", {}, term(figure.name, figure.meaning)), h("dd", {}, format(value),
        before && value !== null ? h("small", {}, ` ${value / before < 10 ? change(value / before - 1) : ratioText(value / before - 1)}`) : null),
      range ? h("div", {class: "small range"}, term(`${format(range[0])} … ${format(range[1])}`, meaning.replace("band", "range"))) : null);
    }));
  }
  function charts() {
    const line = values(along), shown = line.map((value) => find(with_(along, value))), labels = line.map((value) => sliders[along].labels[value]);
    const marks = shown.flatMap((point, index) => point.mark ? [[index, point.mark]] : []);
    return [...new Set(figures.map((figure) => figure.chart))].map((title) => {
      const own = figures.flatMap((figure, index) => figure.chart === title ? [[figure, index]] : []), [{unit, is_log: isLog}] = own[0];
      return PARTS.curves({title, by: sliders[along].name, y: own.length > 1 ? title.toLowerCase() : own[0][0].name, labels, unit, is_log: isLog, marks, now: line.indexOf(now[along]), recorded: shown.indexOf(base),
        meaning: own.some(([, index]) => shown.some((point) => point.ranges[index])) ? meaning : own[0][0].meaning,
        series: own.map(([figure, index]) => ({...figure, values: shown.map((point) => point.values[index]),
          ...bandOf(shown.map((point) => point.ranges[index]))}))});
    });
  }
  function draw() {
    const point = find(now), drawn = values(along).length > 1 ? charts() : [];
    controls.forEach((one) => one.reset());
    place.replaceChildren(facts(point), h("div", {class: drawn.length % 3 ? "pair" : "pair trio"}, drawn),
      point.bars.length ? PARTS.bars({title: barsTitle, parts, bars: point.bars, meaning: barsMeaning}) : "");
  }
  draw();
  return h("div", {class: "grid"}, points.length < 2 ? null : h("div", {class: "sliders"}, sliders.map((slider, index) =>
    h("label", {}, h("span", {}, slider.name), controls[index].input, controls[index].output))), place);
}
