// What the other scripts share: sizes and times as the rest of the page writes them.
ROOT.classList.add("scripted");

function formatBytes(value, signed) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.abs(value), unit = 0;
  while (size >= 1023.95 && unit < units.length - 1) { size /= 1024; unit += 1; }
  const sign = value < 0 ? "-" : signed && value > 0 ? "+" : "";
  return sign + size.toFixed(unit === 0 || size >= 99.95 ? 0 : 1) + " " + units[unit];
}

function formatDuration(seconds) {
  if (seconds < 99.95) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds), pad = (number) => String(number).padStart(2, "0");
  if (whole < 3600) return Math.floor(whole / 60) + " min " + pad(whole % 60) + " s";
  if (whole < 172800) return Math.floor(whole / 3600) + " h " + pad(Math.floor(whole % 3600 / 60)) + " min";
  return (seconds / 86400).toFixed(1) + " days";
}

// What lies further down is drawn when it comes near the window: the first screen does not wait for it. Where each is
// is asked of all before any is drawn: to ask again after that would be to lay out the page again.
function whenNear(elements, draw) {
  const NEAR_PX = 600;
  const isNear = elements.map((element) => element.getBoundingClientRect().top < innerHeight + NEAR_PX);
  elements.forEach((element, number) => {
    if (isNear[number]) return draw(element);
    const near = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      near.disconnect();
      draw(element);
    }, { rootMargin: NEAR_PX + "px" });
    near.observe(element);
  });
}
