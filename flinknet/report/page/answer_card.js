// The answer in a few sentences, as on the terminal: what was recorded, the verdict, the trade-off, how far to trust it, what to do next.
const headline = (sentences) => sentences.length ? h("section", {id: "headline", class: "headline"},
  sentences.map(([name, text]) => h("p", {}, h("b", {}, name), text))) : null;

// What the replay advises: for each situation a sentence in words, what to know about it, and the keys to set; and what that gives and costs.

const answerCard = ({recommendations: found, trades}) => found.length || trades.length ? h("section", {id: "answer"}, h("h2", {}, "Answer"),
  trades.map((trade) => h("p", {class: "verdict"}, `${capital(trade)}.`)), found.map(recommendation)) : null;

function recommendation({head, text, meaning, is_none: isNone, remarks, patch: keys}) {
  return h("div", {class: "situation"},
    h("p", {class: `verdict${isNone ? " doubt" : ""}`}, h("b", {}, term(capital(head), meaning)), `${text}.`),
    remarks.map((remark) => h("p", {class: "note"}, `${capital(remark.text)}.`)), keys ? patch(keys) : null);
}

// The first letter of a sentence; not of a metric, as in "throughput >= 1k/s is met", or a file.
const capital = (text) => text.replace(/^[a-z]+\b(?!\s*[<>_=]|[.]\w)/, (word) => word[0].toUpperCase() + word.slice(1));

// Keys for config.yaml with a button that copies them.
function patch(keys) {
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
  return h("div", {class: "patch"}, h("div", {class: "small"}, "For Flink's config.yaml ", copy), text);
}
