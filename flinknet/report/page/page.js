// Puts the page together: one view at a time, with a button for each.

const {command, views: described} = JSON.parse(document.getElementById("data").textContent);

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
  if (described.length === 1) { showView(described[0]); return; }
  const buttons = described.map((view) => h("button", {type: "button", onclick: (event) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === event.currentTarget)));
    tip.hide();
    showView(view);
  }}, view.name));
  document.getElementById("runs").append(...buttons);
  buttons[0].click();
}

addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

start();
