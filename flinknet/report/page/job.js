// A job of several exchanges from end to end: each setting with the job and its edges.

function showJob(job) {
  const heads = [["timeout", "Buffer timeout; of each edge where they differ."], ["where"], ["records/s", "Records that leave the job, or are consumed on the edge."],
    ["p50", "Latency that half of the records do not exceed: of the job from when a record came to it, of an edge from when it came to that edge."],
    ["p50, 90% interval", "By how the beats of the flushers lie to each other, which is chance in each run, and where that was not recorded by when records came."],
    ["p99", "Latency that 99 of 100 records do not exceed."], ["buffers/s", "Data buffers sent per second; of the job, over all edges."],
    ...priceHeads()];
  const known = (value, format) => value === null || value === undefined ? "unknown" : format(value);
  const figures = (part, spread) => [known(part.throughput_records_per_s, count), known(part.latency_ns.p50, duration), spread,
    known(part.latency_ns.p99, duration), known(part.buffers_per_s, count)];
  const spreadOf = ({latency_low_ns: low, latency_high_ns: high}) =>
    low && high && low.p50 !== null && low.p50 !== high.p50 ? `${duration(low.p50)} … ${duration(high.p50)}` : "";
  const rows = job.points.flatMap((point) => [
    {recorded: point.total.is_recorded, cells: [point.setting, `the job${point.total.is_recorded ? " (recorded)" : ""}`, ...figures(point.total, spreadOf(point.total)), ...priceCells(point.total)]},
    ...point.edges.map((edge, index) => ({cells: ["", `${index + 1} ${edge.edge}`, ...figures(edge, ""), ...priceHeads().map(() => "")]})),
  ]);
  document.getElementById("page").replaceChildren(
    h("h1", {"data-tip": job.path, tabindex: 0}, "The job from end to end"),
    h("div", {class: "banner", id: "job-lines"}, job.lines.map((line) => h("p", {class: "small"}, line))),
    h("section", {id: "job"}, h("h2", {}, "Predicted for each buffer timeout"), table(heads, rows),
      job.trades.map((trade) => h("p", {}, trade)), job.recommendations.map(recommendation), job.notes.map((note) => h("p", {class: "note"}, note))));
  document.title = "the job – flinknet replay";
}
