// Numbers as people read them: the same three digits and units as in the terminal.

const MISSING = "–";

// At most two decimals, rounded as Python does: a tie goes to the even digit.
function fixed(value, digits) {
  const shifted = value * 10 ** digits, isTie = Number.isInteger(value * 8) && Math.abs(shifted % 1) === 0.5;
  return (isTie ? 2 * Math.round(shifted / 2) / 10 ** digits : value).toFixed(digits);
}

function threeDigits(value) {
  const size = Math.abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scaled(value, units, plain) {
  for (const [unit, size] of units) {
    if (Math.abs(value) >= size * 0.9995) return `${threeDigits(value / size)} ${unit}`;
  }
  return plain(value);
}

function duration(ns) {
  if (ns === null || ns === undefined) return MISSING;
  return scaled(ns, [["s", 1e9], ["ms", 1e6], ["us", 1e3]], (value) => value ? `${fixed(value, 0)} ns` : "0 s");
}

function count(value) {
  if (value === null || value === undefined) return MISSING;
  return scaled(value, [["G", 1e9], ["M", 1e6], ["k", 1e3]],
    (small) => Number.isInteger(small) ? String(small) : threeDigits(small));
}

function bytes(value) {
  if (value === null || value === undefined) return MISSING;
  return scaled(value, [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]], (small) => `${fixed(small, 0)} B`);
}

function percent(share, digits = 1) {
  if (share === null || share === undefined) return MISSING;
  return `${fixed(share * 100, digits)}%`;
}

function change(ratio) {
  if (ratio === null || ratio === undefined) return MISSING;
  return Math.abs(ratio) < 0.0005 ? "0.0%" : `${ratio < 0 ? "−" : "+"}${fixed(Math.abs(ratio * 100), 1)}%`;
}

// A tick is a round number: no digits that say nothing, and no unit for none.
function tickText(value, format) {
  if (!value) return "0";
  return format(value).replace(/(\.\d*?)0+(?=[ /%]|$)/, "$1").replace(/\.(?=[ /%]|$)/, "");
}
