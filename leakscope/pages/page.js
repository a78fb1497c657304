// What the other scripts share: sizes and times as the rest of the page writes them.
ROOT.classList.add("scripted");

// The first screen is drawn before what lies below it, which a browser would else prepare first. Who was sent to a place
// in the page is not kept from it.
if (!location.hash) {
  ROOT.classList.add("opening");
  requestAnimationFrame(() => setTimeout(() => ROOT.classList.remove("opening")));
}

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

// As 12,345: `toLocaleString` would load Intl first.
function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

// What lies further down is drawn when it comes near the window. The browser says so once it has drawn the first screen:
// to ask where things are would lay out all of the page before that.
function whenNear(elements, draw) {
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "600px" });
  elements.forEach((element) => near.observe(element));
}
