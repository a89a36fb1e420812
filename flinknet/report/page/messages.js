// Messages of some channels, step by step: who sends what to whom, and the credit that the producer of each channel has left.

const MESSAGES_SHOWN = 14;

function messagesPart({channels, runs, meanings}) {
  const names = Object.keys(runs), place = h("ol", {class: "messages"});
  let steps = [], now = 0;
  const slider = h("input", {type: "range", min: 0, step: 1, "aria-label": "message", oninput: () => move(+slider.value)});
  const step = (by, text, label) => h("button", {type: "button", "aria-label": label, onclick: () => move(now + by)}, text);
  const number = h("output", {class: "clock"});
  const credits = channels.map(([producer]) => ({producer, element: h("div", {class: "credit"})}));

  const meaning = h("p", {class: "note small meaning"}), meaningOf = (text) => meanings[Object.keys(meanings).find((words) => text.includes(words))] || "";

  function show(name) {
    steps = runs[name];
    slider.max = steps.length - 1;
    go(MESSAGES_SHOWN - 1);
  }
  // Places on the page go to the instant of the message.
  function move(index) {
    go(index);
    document.dispatchEvent(new CustomEvent("instant", {detail: steps[now].at_ns}));
  }
  function go(index) {
    now = Math.min(Math.max(index, 0), steps.length - 1);
    slider.value = now;
    number.textContent = `${now + 1} of ${steps.length}`;
    slider.setAttribute("aria-valuetext", number.textContent);
    meaning.textContent = meaningOf(steps[now].text);
    credits.forEach(({producer, element}, channel) => {
      const credit = steps[now].credits[channel];
      element.replaceChildren(`Credit of ${producer}: `, h("b", {}, credit ?? MISSING), " ", h("span", {class: "coins"}, "■".repeat(Math.min(credit || 0, 40)) + (credit > 40 ? " …" : "")));
    });
    place.replaceChildren(...steps.slice(Math.max(0, now + 1 - MESSAGES_SHOWN), now + 1).map((one, at, shown) => {
      if (one.channel === null) return h("li", {class: `left-out${at === shown.length - 1 ? " last" : ""}`}, `… ${one.text}`,
        one.credits.some((each) => each !== null) ? `; credit is now ${channels.map(([producer], index) => `${one.credits[index]} (${producer})`).join(" and ")}` : "");
      const [producer, consumer] = channels[one.channel];
      return h("li", {class: `message${one.is_forward ? "" : " back"}${at === shown.length - 1 ? " last" : ""}`},
        h("span", {class: "at"}, `${(one.at_ns / 1e6).toFixed(2)} ms`), h("span", {}, producer), h("span", {class: "arrow", "data-tip": meaningOf(one.text) || null}, one.text), h("span", {}, consumer));
    }));
  }
  show(names[names.length - 1]); // the one that shows the effect
  return h("div", {}, names.length > 1 ? h("div", {class: "controls"}, select("Run", names.map((name) => [name, name]), names[names.length - 1], show)) : null,
    h("div", {class: "controls steps"}, step(-1, "◂", "one message back"), slider, step(1, "▸", "one message on"), number),
    h("div", {class: "credits"}, credits.map((one) => one.element)), place, meaning);
}
