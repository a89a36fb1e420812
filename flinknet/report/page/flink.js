// Flink's own metrics of the two ends of an edge.

const share = (value) => value === null ? MISSING : `${Math.round(value * 100)}%`;

function flinkSection({flink}) {
  if (!flink) return null;
  const heads = [["task"], ["busy", "Share of the time, by Flink's accumulateBusyTimeMs."], ["idle"],
    ["back-pressured", "Share of the time in which the task waited for its output."], ["records in/s"], ["records out/s"],
    ["in pool", "Mean usage of its input pools."], ["out pool", "Mean usage of its output pools."]];
  const cells = (each) => [each.name, share(each.busy), share(each.idle), share(each.back_pressured),
    count(each.records_in_per_s), count(each.records_out_per_s)];
  const rows = flink.vertices.flatMap((vertex) => [
    {cells: [...cells(vertex), "", ""], recorded: true},
    ...vertex.tasks.map((task) => ({cells: [...cells(task), share(task.in_pool_usage), share(task.out_pool_usage)]}))]);
  const used = flink.task_managers.filter((each) => each.cpu_cores !== null)
    .map((each) => `${each.name} ${each.cpu_cores.toFixed(2)}`);
  return h("section", {id: "flink"}, h("h2", {}, "Flink's own metrics"),
    h("details", {open: rows.length <= 12 ? "" : null}, h("summary", {}, "Vertices and their tasks"), table(heads, rows)),
    used.length ? h("p", {class: "note"}, `CPU, in cores: ${used.join(", ")}`) : null);
}
