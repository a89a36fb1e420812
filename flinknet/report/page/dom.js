// Elements, and the one tooltip: shown for what the pointer is over and for what has the focus.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A word with its meaning on hover and focus.
function term(text, meaning) {
  return meaning ? h("span", {"data-tip": meaning, tabindex: 0}, text) : document.createTextNode(text);
}

const tip = {
  get box() { return document.getElementById("tip"); },
  // content: a text, or {title, rows: [[name, value], …], text}
  show(content, x, y) {
    const parts = typeof content === "string" ? {text: content} : content;
    this.box.replaceChildren(
      ...[parts.title && h("b", {}, parts.title),
        parts.rows && h("table", {}, parts.rows.map(([name, value]) => h("tr", {}, h("td", {}, name), h("td", {}, value)))),
        parts.text && h("div", {}, parts.text)].filter(Boolean));
    this.box.hidden = false;
    this.scrolled = scrollY;
    const {width, height} = this.box.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 6 ? x - width - 14 : x + 14;
    const top = y + 14 + height > innerHeight - 6 ? y - height - 14 : y + 14;
    this.box.style.left = `${Math.max(6, Math.min(left, innerWidth - width - 6))}px`;
    this.box.style.top = `${Math.max(6, top)}px`;
  },
  hide() { this.box.hidden = true; },
};

function explained(event) {
  return event.target instanceof Element ? event.target.closest("[data-tip]") : null;
}

document.addEventListener("pointerover", (event) => {
  const element = explained(event);
  if (element) tip.show(element.dataset.tip, event.clientX, event.clientY);
});
document.addEventListener("pointerout", (event) => { if (explained(event)) tip.hide(); });
document.addEventListener("focusin", (event) => {
  const element = explained(event);
  if (!element || !element.matches(":focus-visible")) return;
  const place = element.getBoundingClientRect();
  tip.show(element.dataset.tip, place.left, place.bottom);
});
document.addEventListener("focusout", () => tip.hide());
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hide(); });
addEventListener("scroll", () => { if (Math.abs(scrollY - tip.scrolled) > 2) tip.hide(); }, {passive: true});

// A cell of more characters is a sentence, which may break between its words.
const LONG_CELL = 26;

// A column of words, which stand on the left; numbers stand on the right.
function isOfWords(rows, index) {
  const texts = rows.map((row) => row.cells[index]).filter((cell) => !(cell instanceof Element)).map(String).filter((text) => text && text !== MISSING && text !== "unknown");
  return texts.length > 0 && (texts.every((text) => !/^[−+<>~]?\d/.test(text)) || texts.some((text) => text.length > LONG_CELL));
}

// Meanings of the marks before the name of a row.
const ROW_MARKS = {"! ": "doubtful: the answer says why", "✗ ": "invalid: the answer says why"};

function table(heads, rows) {
  const sides = heads.map((_, index) => isOfWords(rows, index) ? "left" : null);
  const tipOf = (text, index) => index ? null : ROW_MARKS[text.slice(0, 2)];
  const classOf = (text, index) => [text.length > LONG_CELL && "wrap", sides[index]].filter(Boolean).join(" ") || null;
  const hint = h("div", {class: "scrolls", hidden: ""}, "more columns: scroll sideways →");
  const place = h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "table"}, h("table", {},
    h("thead", {}, h("tr", {}, heads.map(([name, meaning], index) => h("th", {scope: "col", class: sides[index]}, term(name, meaning))))),
    h("tbody", {}, rows.map((row) => h("tr", {class: row.recorded ? "recorded" : null},
      row.cells.map((cell, index) => cell instanceof Element ? cell : h("td", {class: classOf(String(cell), index), "data-tip": tipOf(String(cell), index), "data-head": heads[index][0] || null}, String(cell))))))));
  new ResizeObserver(() => {
    place.classList.remove("stacked");
    const isWide = place.scrollWidth > place.clientWidth + 1, isStacked = isWide && matchMedia("(max-width: 560px)").matches;
    place.classList.toggle("stacked", isStacked);
    hint.hidden = !isWide || isStacked;
    place.classList.toggle("wide", !hint.hidden);
  }).observe(place);
  return h("div", {class: "table"}, hint, place);
}

function legend(items) {
  return h("div", {class: "legend"}, items.map(([name, color, meaning, kind]) => h("span", meaning ? {"data-tip": meaning, tabindex: 0} : {},
    color ? h("i", {style: `background: ${color}`, class: kind || null}) : null, name)));
}

function select(label, options, value, onChange) {
  return h("label", {}, `${label} `, h("select", {onchange: (event) => onChange(event.target.value)},
    options.map(([key, text]) => h("option", {value: key, selected: String(key) === String(value) ? "" : null}, text))));
}
