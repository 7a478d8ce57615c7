// Numbers as people read them, and small pieces of the page. Text goes in as text, never as markup.
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};
// Steps of an axis: bytes go by powers of two.
const byteSteps = Array.from({ length: 60 }, (_, i) => 2 ** i);
const byId = (id) => document.getElementById(id);
const isKnown = (value) => value !== null && value !== undefined && value >= 0;

function bytes(value) {
  if (!isKnown(value)) return "–";
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; ++unit; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
function count(value) {
  return isKnown(value) ? Math.round(value).toLocaleString("en-US") : "–";
}
function seconds(value) {
  if (!isKnown(value)) return "–";
  if (value === 0) return "0 s";
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => value >= size);
  value = Math.round(value);
  const [size, unit] = parts[first];
  const rest = parts[first + 1] ? Math.floor((value % size) / parts[first + 1][0]) : 0;
  return `${Math.floor(value / size)} ${unit}` + (rest > 0 ? ` ${rest} ${parts[first + 1][1]}` : "");
}
function clock(iso) {
  const at = new Date(iso);
  const today = at.toDateString() === new Date().toDateString();
  const time = at.toLocaleTimeString("en-GB");
  return today ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}
// An upper bound for what `share` of the measurements between two looks at a histogram took.
function quantile(before, now, share) {
  if (!now) return null;
  const earlier = (i) => (before ? before.at_or_below[i] : 0);
  const total = now.total - (before ? before.total : 0);
  if (total <= 0) return null;
  const wanted = total * share;
  const i = now.bounds.findIndex((_, n) => now.at_or_below[n] - earlier(n) >= wanted);
  return i < 0 ? Infinity : now.bounds[i];
}
