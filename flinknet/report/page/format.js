// Numbers as people read them: the same three digits and units as in the terminal.

const MISSING = "–";

function threeDigits(value) {
  const size = Math.abs(value);
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, units, plain) {
  for (const [unit, size] of units) {
    if (Math.abs(value) >= size * 0.9995) return `${threeDigits(value / size)} ${unit}`;
  }
  return plain(value);
}

function duration(ns) {
  if (ns === null || ns === undefined) return MISSING;
  return scaled(ns, [["s", 1e9], ["ms", 1e6], ["us", 1e3]], (value) => value ? `${value.toFixed(0)} ns` : "0 s");
}

function count(value) {
  if (value === null || value === undefined) return MISSING;
  return scaled(value, [["G", 1e9], ["M", 1e6], ["k", 1e3]],
    (small) => Number.isInteger(small) ? String(small) : threeDigits(small));
}

function bytes(value) {
  if (value === null || value === undefined) return MISSING;
  return scaled(value, [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]], (small) => `${small.toFixed(0)} B`);
}

function percent(share, digits = 1) {
  if (share === null || share === undefined) return MISSING;
  const value = share * 100, isHalf = !digits && value % 1 === 0.5; // as Python rounds
  return `${isHalf ? 2 * Math.round(value / 2) : value.toFixed(digits)}%`;
}

function change(ratio) {
  return ratio === null || ratio === undefined ? MISSING : `${ratio < 0 ? "−" : "+"}${Math.abs(ratio * 100).toFixed(1)}%`;
}

// A tick is a round number: no digits that say nothing, and no unit for none.
function tickText(value, format) {
  if (!value) return "0";
  return format(value).replace(/(\.\d*?)0+(?=[ /%]|$)/, "$1").replace(/\.(?=[ /%]|$)/, "");
}
