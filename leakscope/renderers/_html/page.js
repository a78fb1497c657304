"use strict";
// What the other two scripts share: the report's data, and sizes as the rest of the page writes them.
const DATA = JSON.parse(document.getElementById("data").textContent);
document.documentElement.classList.add("scripted");

function formatBytes(value, signed) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.abs(value), unit = 0;
  while (size >= 1023.95 && unit < units.length - 1) { size /= 1024; unit += 1; }
  const sign = value < 0 ? "-" : signed && value > 0 ? "+" : "";
  return sign + size.toFixed(unit === 0 || size >= 99.95 ? 0 : 1) + " " + units[unit];
}
