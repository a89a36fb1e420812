// Puts the page together: one run at a time, and all of them next to each other if there are several.

const {command, replays = [], jobs = [], views: described = []} = JSON.parse(document.getElementById("data").textContent);

const runName = (answer) => answer.trace.path.replace(/\/+$/, "").split("/").pop();

const isOneRun = new Set(replays.map((answer) => answer.trace.path)).size === 1;

// An edge of a job by its own number and name, of several runs behind that of the run.
const edgeName = ({edge, edge_number: number}) => edge ? `${number} ${edge}` : null;
const viewName = ({trace, trace: {edge}}) => [isOneRun && edge ? null : runName({trace}), edgeName(trace)].filter(Boolean).join(", ");

function showRun(answer) {
  document.getElementById("page").replaceChildren(...[
    h("h1", {"data-tip": answer.trace.path, tabindex: 0}, viewName(answer)), headline(answer.headline), modelError(answer), doubts(answer), answerCard(answer), facts(answer),
    tradeOffs(answer), latencySection(answer), overTime(answer), regimesSection(answer), fillSection(answer), channelsSection(answer),
    flinkSection(answer), environment(answer),
  ].filter(Boolean));
  document.title = `${viewName(answer)} – flinknet replay`;
}

function showAll() {
  const timeout = (answer) => (answer.trade_offs.find((point) => point.is_recorded) || {setting: {}}).setting["buffer timeout"] || MISSING;
  const heads = [[isOneRun ? "edge" : "run"], ["timeout"], ["records/s", MEANING.throughput], ["p50", MEANING.p50], ["p99", MEANING.p99], ["backlog", MEANING.backlog],
    ["error throughput", "Of the model, on the recorded setting."], ["error p50"], ["error p99"]];
  const error = (value) => change(value);
  document.getElementById("page").replaceChildren(h("h1", {}, isOneRun ? "All edges, observed" : "All runs, observed"), h("section", {}, table(heads, replays.map((answer) => ({cells: [
    viewName(answer), timeout(answer), count(answer.observed.throughput_records_per_s), duration(answer.observed.latency_ns.p50),
    duration(answer.observed.latency_ns.p99), fixed(answer.observed.backlog_buffers.mean),
    error(answer.model_error.throughput), error(answer.model_error.p50), error(answer.model_error.p99)]})))));
  document.title = "flinknet replay";
}

// What there is to look at: [name, show] of each view.
function allViews() {
  if (described.length) return described.map((view) => [view.name, () => showView(view)]);
  if (replays.length === 1) return [["", () => showRun(replays[0])]];
  const nameOf = (job) => jobs.length > 1 ? `job ${jobName(job)}` : "the job";
  return [...jobs.map((job) => [nameOf(job), () => showJob(job)]), [isOneRun ? "all edges" : "all runs", showAll],
    ...replays.map((answer) => [viewName(answer), () => showRun(answer)])];
}

// The size of all but the head, in percent: for a projector. It is in the address, so that a link can have it.
const SIZES = [100, 125, 150, 175, 200];

function offerSizes() {
  const asked = Number(new URLSearchParams(location.hash.slice(1)).get("size"));
  let at = Math.max(0, SIZES.indexOf(asked));
  const button = (by, text, label) => h("button", {type: "button", "aria-label": label, "data-tip": label, onclick: () => show(at + by)}, text);
  const smaller = button(-1, "A−", "smaller text"), larger = button(1, "A+", "larger text, for a projector");
  function show(index) {
    at = Math.min(Math.max(index, 0), SIZES.length - 1);
    document.documentElement.style.setProperty("--size", SIZES[at] / 100);
    [smaller.disabled, larger.disabled] = [at === 0, at === SIZES.length - 1];
    try { if (at || asked) history.replaceState(null, "", `#size=${SIZES[at]}`); } catch { /* a page in another has no address */ }
  }
  show(at);
  document.getElementById("sizes").append(smaller, larger);
}

function start() {
  offerSizes();
  document.getElementById("command").textContent = command;
  const views = allViews();
  if (views.length === 1) { views[0][1](); return; }
  const buttons = views.map(([name, show]) => h("button", {type: "button", onclick: (event) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === event.currentTarget)));
    tip.hide();
    show();
  }}, name));
  document.getElementById("runs").append(...buttons);
  buttons[0].click();
}

addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

start();
