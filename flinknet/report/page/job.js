// A job of several exchanges from end to end: the answer, curves over the settings, each setting with the job and its edges.

const known = (value, format) => value === null || value === undefined ? "unknown" : format(value);

// The 90% interval of a latency of the job; nothing where it has none.
function spreadOf({latency_low_ns: low, latency_high_ns: high}, name) {
  const ends = [low, high].map((each) => each ? each[name] : null);
  return ends.includes(null) || ends[0] === ends[1] ? "" : `${duration(ends[0])} … ${duration(ends[1])}`;
}

function jobTip(job, {total, setting}) {
  const rows = [["setting", setting]];
  for (const name of ["p50", "p99"]) {
    rows.push([name, known(total.latency_ns[name], duration)]);
    if (spreadOf(total, name)) rows.push([`${name}, 90% interval`, spreadOf(total, name)]);
  }
  rows.push(["records/s", known(total.throughput_records_per_s, count)], ["buffers/s", known(total.buffers_per_s, count)]);
  return {title: total.is_recorded ? "predicted for the recorded setting" : "predicted", rows};
}

function jobCurves(job) {
  const totals = job.points.map((point) => point.total), labels = job.points.map((point) => point.setting);
  if (job.points.length < 2 || totals.every((total) => total.latency_ns.p50 === null)) return null;
  const common = {
    labels, isLog: true, recorded: totals.findIndex((total) => total.is_recorded), tip: (index) => jobTip(job, job.points[index]),
    marks: job.points.flatMap((point, index) => point.marks.length ? [[index, point.marks.join(", ")]] : []),
  };
  const series = (metric, color) => ({
    name: METRICS[metric].name, color, values: totals.map((total) => METRICS[metric].value(total)),
    band: metric === "buffers" ? null : bandOf(totals, metric, null),
  });
  return h("section", {id: "job-curves"}, h("h2", {}, "What other settings would do"), h("div", {class: "pair"},
    chart("Latency by buffer timeout", "Of the job from end to end. The band is the 90% interval.",
      [["p50", "var(--blue)", MEANING.p50, true], ["p99", "var(--orange)", MEANING.p99, true]],
      (width) => curves({...common, format: duration, label: "predicted latency of the job",
        series: [series("p99", "var(--orange)"), series("p50", "var(--blue)")]}, width)),
    chart("Buffers per second by buffer timeout", "Data buffers sent per second, over all edges.", null,
      (width) => curves({...common, format: count, label: "predicted buffers per second of the job",
        series: [series("buffers", "var(--purple)")]}, width))));
}

const jobName = (job) => job.path.replace(/\/+$/, "").split("/").slice(-2).join("/");

function jobTables(job) {
  const figures = ["records/s", "Records that leave the job, or are consumed on the edge."], buffers = ["buffers/s", "Data buffers sent per second; of the job, over all edges."];
  const p50 = ["p50", "Latency that half of the records do not exceed: of the job from when a record came to it, of an edge from when it came to that edge."];
  const p99 = ["p99", "Latency that 99 of 100 records do not exceed; counted likewise."];
  const spread = (name) => [`${name}, 90% interval`, "By how the beats of the flushers lie to each other, which is chance in each run, and where that was not recorded by when records came."];
  const timeout = ["timeout", "Buffer timeout; of each edge where they differ."];
  const totals = job.points.map(({setting, total, marks}) => ({recorded: total.is_recorded, cells: [
    setting, known(total.throughput_records_per_s, count), known(total.latency_ns.p50, duration), spreadOf(total, "p50"),
    known(total.latency_ns.p99, duration), spreadOf(total, "p99"), known(total.buffers_per_s, count), ...priceCells(total),
    marks.map((mark) => `← ${mark}`).join(" ")]}));
  const edges = job.points.flatMap((point) => point.edges.map((edge, index) => ({recorded: point.total.is_recorded, cells: [
    index ? "" : point.setting, `${edge.number} ${edge.edge}`, known(edge.throughput_records_per_s, count),
    known(edge.latency_ns.p50, duration), known(edge.latency_ns.p99, duration), known(edge.buffers_per_s, count)]})));
  return h("section", {id: "job"}, h("h2", {}, "Predicted for each buffer timeout"),
    table([timeout, figures, p50, spread("p50"), p99, spread("p99"), buffers, ...priceHeads(), [""]], totals),
    h("details", {}, h("summary", {}, "Each edge"), table([timeout, ["edge"], figures, p50, p99, buffers], edges)),
    job.notes.map((note) => h("p", {class: "note"}, note)));
}

function showJob(job) {
  document.getElementById("page").replaceChildren(...[
    h("h1", {"data-tip": job.path, tabindex: 0}, `The job from end to end: ${jobName(job)}`),
    headline(job.headline),
    answerCard(job),
    h("div", {class: bannerOf(job.model_error, job.lines.some((line) => /^(unknown|model error unknown|Do not rely)/.test(line))), id: "job-lines"}, job.lines.map((line) => h("p", {class: "small"}, capital(line)))),
    jobCurves(job), jobTables(job),
  ].filter(Boolean));
  document.title = `${jobName(job)} – flinknet replay`;
}
