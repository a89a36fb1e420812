// What the replay advises: for each situation the setting that holds the targets, or the knee, with the
// keys to set.

const FRONTIER = "No other setting is as good in all of p99, throughput, buffers per second and memory.";
const KNEE = "The setting on the frontier with the smallest combined loss of p99, throughput, buffers/s and memory. If latency matters more, set --target.";

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
    return [h("p", {class: "verdict doubt"}, h("b", {}, "No predicted setting meets "), h("code", {}, targets), `${at}.`),
      near ? h("p", {class: "note"}, `Closest: ${settingName(answer, near)}${reached(choice, near)}.`) : null];
  }
  const point = points[choice.point], longer = choice.next_longer_ns;
  return [h("p", {class: "verdict"}, h("code", {}, targets), " is met with ", h("b", {}, settingName(answer, point)),
      `${reached(choice, point)}.`),
    choice.is_safe ? null : h("p", {class: "note"}, "Closer to the limit than 5 % or the model's error on the recorded setting: measure it."),
    longer ?? null ? h("p", {class: "note"}, `Next longer predicted timeout: ${tickText(longer, duration)}.`) : null,
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
  if (!keys) return beyond.length ? remarks : [h("p", {class: "note"}, "Nothing to change: its keys are the recorded ones.")];
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

// The value of a single target, and how far from the limit it is; of several targets the closest.
function reached({margin, targets}, point) {
  const metric = targets[0].split(/[<>]/)[0].trim().replace(".", "_"), isLatency = metric !== "throughput", isOne = targets.length === 1;
  const upper = point.latency_high_ns, latency = isOne && isLatency ? (upper ?? point.latency_ns)?.[metric] ?? null : null;
  const value = latency === null ? "" : upper ? `up to ${duration(latency)} (90 % interval), ` : `${duration(latency)}, `;
  if (margin < -1) return `: ${value}${+(1 - margin).toPrecision(3)} times the limit`;
  const side = margin < 0 ? "past" : !isOne ? "inside" : isLatency ? "below" : "above";
  return `: ${value}${percent(Math.abs(margin), 0)} ${side} the limit`;
}

const settingName = (answer, point) => answer.varies.map((name) => `${name} ${point.setting[name]}`).join(", ");

// A situation by what varies; nothing where there is but one.
function situationName(answer, situation) {
  const point = answer.trade_offs.find((each) => SITUATION.every((key) => each[key] === situation[key]));
  return point ? answer.varies.filter((name) => SITUATION_NAMES.includes(name)).map((name) => `${name} ${point.setting[name]}`).join(", ") : "";
}

const SITUATION = ["rate_factor", "consumer_speed", "round_trip_ns", "flow_control"];
const SITUATION_NAMES = ["rate", "consumer speed", "round trip", "flow control"];
