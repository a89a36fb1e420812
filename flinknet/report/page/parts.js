// Parts that a command describes as data (page_parts.py): sections with charts, tables and texts in them.

const FORMATS = {ns: duration, count, bytes, share: (value) => percent(value, 0)};
const colorOf = (name) => `var(--${name})`;
const ON_LIGHT = {gold: "var(--on-gold)", grey: "var(--on-grey)"};

function showView(view) {
  document.getElementById("page").replaceChildren(h("h1", view.meaning ? {"data-tip": view.meaning, tabindex: 0} : {}, view.title), view.lead ? h("p", {class: "lead"}, view.lead) : "", ...view.parts.map(partOf));
  document.title = `${view.title} – flinknet ${command}`;
}

const partOf = (part) => PARTS[part.kind](part);
const CHARTS = ["curves", "over_time", "percentiles", "histogram"];

// Charts that follow each other share a row where there is room.
function inRows(parts) {
  const rows = [];
  for (const part of parts) {
    const isChart = CHARTS.includes(part.kind), last = rows[rows.length - 1];
    if (isChart && last && last.isCharts) last.parts.push(part);
    else rows.push({isCharts: isChart, parts: [part]});
  }
  return rows.map(({parts: row}) => row.length > 1 ? h("div", {class: row.length % 3 ? "pair" : "pair trio"}, row.map(partOf)) : partOf(row[0]));
}

// One series needs no legend: the title names it.
const figureOf = ({title, meaning, series}, items, draw) => chart(title, meaning || series.length === 1 && series[0].meaning, items, draw);
const legendOf = (series, inLanes) => series.length > 1 || inLanes
  ? [...series.map((one) => [one.name, colorOf(one.color), one.meaning, one.is_bound ? "thin bound" : "thin"]), ...inLanes ? [[`▬ ${inLanes}`]] : []] : null;

const colored = (rows) => rows.map((one) => ({...one, color: colorOf(one.color)}));
const overTimeChart = (part, width, height, at) => (part.in_rows ? rowsOverTime : linesOverTime)({
  ...part, at, label: part.title, format: FORMATS[part.unit], series: colored(part.series), lanes: colored(part.lanes)}, width, height);

const PARTS = {
  headline: ({sentences}) => h("section", {id: "headline", class: "headline"}, sentences.map(([name, text]) => h("p", {}, h("b", {}, name), text))),
  section: ({id, title, lead, parts}) => h("section", {id: id || null}, title ? h("h2", {}, title) : null, lead ? h("p", {class: "lead"}, lead) : null, inRows(parts)),
  lines: ({lines, id, meaning, is_doubt: isDoubt, is_headed: isHeaded, is_plain: isPlain}) => h("div", {id: id || null, class: `banner${isDoubt ? " doubt" : isPlain || !isHeaded ? " plain" : ""}`},
    lines.map((line, index) => isHeaded && !index ? h("strong", {}, term(line, meaning)) : h("p", {class: "small"}, line))),
  text: ({name, text, meaning, is_doubt: isDoubt, notes}) => h("div", {class: "situation"}, h("p", {class: `verdict${isDoubt ? " doubt" : ""}`},
    name ? h("b", {}, term(name, meaning)) : null, text), notes.map((note) => h("p", {class: "note"}, note))),
  facts: ({facts}) => h("dl", {class: facts.length % 5 === 1 ? "facts six" : "facts"}, facts.map(({name, value, meaning}) =>
    h("div", {class: "fact"}, h("dt", {}, term(name, meaning)), h("dd", {}, value)))),
  table: ({heads, rows, title, notes, fold}) => fold ? h("details", {open: fold === "open" ? "" : null}, h("summary", {}, title), PARTS.table({heads, rows, notes}))
    : h("div", {}, title ? h("h3", {}, title) : null,
    table(heads.map(({name, meaning, group}) => [group ? `${group} ${name}` : name, meaning]), rows.map(({cells, is_strong: recorded}) => ({cells, recorded}))),
    notes.map((note) => h("p", {class: "note small"}, note))),
  curves: (part) => figureOf({...part, title: part.by ? `${part.title} by ${part.by}` : part.title}, legendOf(part.series), (width) => curves({
    ...part, recorded: part.recorded ?? -1, isLog: part.is_log, isBars: part.is_bars, format: FORMATS[part.unit], label: part.title,
    series: part.series.map((one) => ({name: one.name, color: colorOf(one.color), values: one.values, isBound: one.is_bound,
      band: one.low.length ? one.low.map((low, index) => low === null || one.high[index] === null ? null : [low, one.high[index]]) : null})),
    tip: (index) => ({title: part.labels[index], rows: part.series.map((one) => [one.name, FORMATS[part.unit](one.values[index])
      + ((one.low[index] ?? null) === null ? "" : ` (${FORMATS[part.unit](one.low[index])} … ${FORMATS[part.unit](one.high[index])})`)])}),
  }, width)),
  over_time: (part) => figureOf(part, part.in_rows ? null : legendOf(part.series, part.in_lanes), (width) => overTimeChart(part, width)),
  percentiles: (part) => {
    const [first, ...others] = part.series;
    return figureOf(part, legendOf(part.series), (width) => percentiles({series: colored(part.series), format: duration, label: part.title,
      tip: (q, value) => ({title: `${+(q * 100).toFixed(4)}% of the records`, rows: [[`${first.name}, at most`, duration(value)],
        ...others.flatMap((one) => one.points.filter(([other]) => Math.abs(other - q) < 1e-9).map(([, other]) => [`${one.name}, at most`, duration(other)]))]}),
    }, width));
  },
  histogram: ({title, meaning, ranges, series, across, unit, marks, x, y, is_log: isLog}) => {
    const [formatOf, format] = [FORMATS[across], unit === "share" ? percent : FORMATS[unit]], total = (index) => series.reduce((sum, one) => sum + one.values[index], 0);
    const all = ranges.reduce((sum, _, index) => sum + (series.length ? total(index) : 0), 0);
    return chart(title, meaning, series.length > 1 ? series.map((one) => [one.name, colorOf(one.color), one.meaning]) : null, (width) => histogram({
      edges: ranges, x, y, isLog, xFormat: formatOf, yFormat: format, label: title, marks, series: colored(series),
      tip: (index) => ({title: `${formatOf(ranges[index][0])} to ${formatOf(ranges[index][1])}`, rows: [
        ...series.filter((one) => one.values[index]).map((one) => [one.name, format(one.values[index])]),
        ["share", percent(all ? total(index) / all : 0, 2)],
        ["this or less", percent(all ? ranges.slice(0, index + 1).reduce((sum, _, other) => sum + total(other), 0) / all : 0, 2)]]}),
    }, width));
  },
  bars: ({title, parts, bars, meaning, x}) => h("figure", {}, h("figcaption", {}, h("h3", {}, term(title, meaning)),
    legend(parts.map((part) => [part.name, colorOf(part.color), part.meaning]))),
  responsive((width) => stackedBars({rows: bars, label: title, x,
    parts: parts.map((part) => [part.key, part.name, colorOf(part.color), ON_LIGHT[part.color] || "var(--card)"]),
    tip: (row, key) => {
      const part = parts.find((each) => each.key === key);
      return {title: `${row.name}, ${part.name}: ${percent(row.shares[key])}`, text: part.meaning};
    }}, width))),
  intervals: (part) => h("figure", {}, h("figcaption", {}, h("h3", {}, term(part.title, part.meaning))),
    responsive((width) => changeIntervals({label: part.title, intervals: colored(part.intervals)}, width))),
  code: ({title, text}) => {
    const shown = h("pre", {tabindex: 0, "aria-label": title || "text"}, text);
    const copy = h("button", {type: "button", onclick: async () => {
      getSelection().selectAllChildren(shown);
      copy.textContent = await navigator.clipboard.writeText(text).then(() => "copied", () => "selected");
      setTimeout(() => { copy.textContent = "copy"; }, 2000);
    }}, "copy");
    return h("div", {class: "patch"}, h("div", {class: "small"}, `${title} `, copy), shown);
  },
  pairs: ({title, pairs}) => h("details", {}, h("summary", {}, title), h("dl", {class: "pairs"}, Object.entries(pairs).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))))),
  places: placesPart,
  timeline: timelinePart,
  messages: messagesPart,
  grid: gridPart,
};
