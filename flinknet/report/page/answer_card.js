// What the replay advises: for each situation the setting that holds the targets, or the knee, with the
// keys to set.

const FRONTIER = "No other setting is as good in p99, throughput, buffers per second and memory.";
const KNEE = "Of all settings on the frontier it gives away least of each.";

function answerCard(answer) {
  const {advice} = answer;
  if (!advice || !advice.withheld && !advice.situations.length) return null;
  const lines = advice.withheld
    ? [h("p", {class: "verdict"}, h("b", {}, "No frontier, knee or setting is advised: "), `${advice.withheld}.`)]
    : advice.situations.map((situation) => situationAdvice(answer, situation)).filter(Boolean);
  return lines.length ? h("section", {id: "answer"}, h("h2", {}, "Answer"), lines) : null;
}

function situationAdvice(answer, situation) {
  const where = situationName(answer, situation), at = where ? ` at ${where}` : "";
  const parts = situation.choice ? choiceLines(answer, situation, at) : kneeLines(answer, situation, at);
  return parts.length ? h("div", {class: "situation"}, parts) : null;
}

function choiceLines(answer, {choice, beyond_keys: beyond}, at) {
  const targets = choice.targets.join(", "), points = answer.trade_offs;
  if (choice.point === null) {
    const near = points[choice.nearest];
    return [h("p", {class: "verdict doubt"}, h("b", {}, "No predicted setting holds "), h("code", {}, targets), `${at}.`),
      near ? h("p", {class: "note"}, `Nearest is ${settingName(answer, near)}, ${miss(choice.margin)}${byTheGreatest(near)}.`) : null];
  }
  const point = points[choice.point], longer = choice.next_longer_ns;
  return [h("p", {class: "verdict"}, h("code", {}, targets), " holds with ", h("b", {}, settingName(answer, point)),
      `, ${percent(choice.margin, 0)} of the limit to spare${byTheGreatest(point)}.`),
    choice.is_safe ? null : h("p", {class: "note"}, "A prediction needs more to spare: 5 %, or what the model was off by on the recorded setting; measure it."),
    longer ?? null ? h("p", {class: "note"}, `The next longer timeout that was predicted is ${tickText(longer, duration)}.`) : null,
    patch(choice.patch, beyond)];
}

function kneeLines(answer, situation, at) {
  if (situation.knee === null) return situation.why_no_knee ? [h("p", {class: "verdict"}, h("b", {}, `No knee${at}`), `: ${situation.why_no_knee}.`)] : [];
  return [h("p", {class: "verdict"}, term("Knee", KNEE), " of the ", term("frontier", FRONTIER), ": ",
    h("b", {}, settingName(answer, answer.trade_offs[situation.knee])), "."), patch(situation.knee_patch, situation.beyond_keys)];
}

// Keys for config.yaml with a button that copies them; or that there is nothing to change.
function patch(keys, beyond) {
  const remarks = beyond.map((text) => h("p", {class: "note"}, text));
  if (!keys) return beyond.length ? remarks : [h("p", {class: "note"}, "Its keys are those that were recorded: nothing to change.")];
  const text = h("pre", {tabindex: 0, "aria-label": "keys for Flink's config.yaml"}, keys);
  const copy = h("button", {type: "button", onclick: async () => {
    getSelection().selectAllChildren(text);
    try {
      await navigator.clipboard.writeText(keys);
      copy.textContent = "copied";
    } catch {
      copy.textContent = "selected";
    }
    setTimeout(() => { copy.textContent = "copy"; }, 2000);
  }}, "copy");
  return [...remarks, h("div", {class: "patch"}, h("div", {class: "small"}, "For Flink's config.yaml ", copy), text)];
}

const miss = (margin) => margin >= -1 ? `off by ${percent(-margin, 0)} of the limit` : `at ${+(1 - margin).toPrecision(3)} times the limit`;

const byTheGreatest = (point) => point.latency_high_ns ? " by the upper end of its 90 % interval" : "";

const settingName = (answer, point) => answer.varies.map((name) => `${name} ${point.setting[name]}`).join(", ");

// A situation by what varies; nothing where there is but one.
function situationName(answer, situation) {
  const point = answer.trade_offs.find((each) => SITUATION.every((key) => each[key] === situation[key]));
  return point ? answer.varies.filter((name) => SITUATION_NAMES.includes(name)).map((name) => `${name} ${point.setting[name]}`).join(", ") : "";
}

const SITUATION = ["rate_factor", "consumer_speed", "round_trip_ns", "flow_control"];
const SITUATION_NAMES = ["rate", "consumer speed", "round trip", "flow control"];
