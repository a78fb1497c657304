// What every chart shares: colours and axes of the page, zoom by buttons, and the keyboard.
const GUTTER = 80;
const TIME_STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// Asked of the page once for each time that a chart is built: each answer may have to wait for the page's style.
const colours = new Map();
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(ROOT).getPropertyValue("--" + name).trim());
  return colours.get(name);
}

function clock(seconds, span) {
  const whole = Math.round(seconds), pad = (n) => String(n).padStart(2, "0");
  if (span < 5) return seconds.toFixed(1) + " s";
  if (whole < 60 && span < 600) return whole + " s";
  if (whole < 3600) return Math.floor(whole / 60) + ":" + pad(whole % 60);
  const day = whole >= 86400 ? Math.floor(whole / 86400) + " d " : "";
  const hours = day ? Math.floor(whole % 86400 / 3600) : Math.floor(whole / 3600);
  return day + hours + ":" + pad(Math.floor(whole % 3600 / 60)) + (span < 600 ? ":" + pad(whole % 60) : " h");
}

function byteTicks(plot, axis, low, high) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(high - low, 4) / 6));
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) ticks.push(value);
  return ticks;
}

// Labels that differ: in the next smaller unit where a step is less than what is written.
function byteLabels(values) {
  const plain = values.map((v) => formatBytes(v).replace(".0 ", " "));
  if (new Set(plain).size === plain.length) return plain;
  const unit = Math.max(0, Math.floor(Math.log2(Math.max(...values)) / 10) - 1);
  return values.map((v) => formatCount(Math.round(v / 1024 ** unit)) + " " + ["B", "KiB", "MiB", "GiB"][unit]);
}

// The scale from left to right: seconds, steps or whole numbers; then bytes.
function axes(unit) {
  const axis = { stroke: colour("soft"), font: "11px system-ui, sans-serif", grid: { stroke: colour("hair"), width: 1 }, ticks: { show: false } };
  const named = (v, i, values) => (!Number.isInteger(v) ? "" : (unit !== "number" && i === values.findIndex(Number.isInteger) ? unit + " " : "") + formatCount(v));
  const along = unit === "s"
    ? { incrs: TIME_STEPS_S, values: (u, values) => values.map((v) => clock(v, u.scales.x.max - u.scales.x.min)) }
    : { ...(unit === "number" ? { incrs: [1, 2, 5, 10, 20, 50, 100] } : {}), values: (u, values) => values.map(named) };
  const up = { size: GUTTER, splits: byteTicks, values: (u, values) => byteLabels(values) };
  return [{ ...axis, size: 30, space: 64, ...along }, { ...axis, ...up }];
}

function chartWidth(box) {
  return Math.max(280, box.clientWidth);
}

// Where one chart is looked at: `view.plot` is drawn by `view.build(range)`, `view.at` is the index that `view.show()` reads out.
function steer(section, box, view) {
  const visible = () => ({ min: view.plot.scales.x.min, max: view.plot.scales.x.max });

  function zoom(how) {
    const { min, max } = visible(), [first, last] = [view.xs[0], view.last];
    const half = (max - min) / 2 * (how === "in" ? 0.5 : 2), centre = Math.min(Math.max(view.xs[view.at], min), max);
    const range = { min: Math.max(first, centre - half), max: Math.min(last, centre + half) };
    view.plot.setScale("x", how === "all" ? { min: first, max: last } : range);
  }

  function moveTo(index) {
    view.at = Math.min(Math.max(index, 0), view.xs.length - 1);
    view.plot.setCursor({ left: view.plot.valToPos(view.xs[view.at], "x"), top: 0 }, false);
    view.show();
  }

  box.addEventListener("keydown", (event) => {
    const stride = event.shiftKey ? Math.ceil(view.xs.length / 20) : 1;
    const actions = {
      ArrowLeft: () => moveTo(view.at - stride), ArrowRight: () => moveTo(view.at + stride),
      Home: () => moveTo(0), End: () => moveTo(view.xs.length - 1),
      "+": () => zoom("in"), "=": () => zoom("in"), "-": () => zoom("out"), "0": () => zoom("all"), Escape: () => zoom("all"),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
  section.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(button.dataset.zoom)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.build(visible()));
  new ResizeObserver(() => {
    const width = chartWidth(box);
    if (view.plot && view.plot.width !== width) view.plot.setSize({ width, height: view.plot.height });
  }).observe(box);
  return { visible };
}

// What stands for a band or a line in the legend.
function swatch(shape, width, height, attributes) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", shape);
  for (const [element, values] of [[svg, { width, height, "aria-hidden": "true" }], [drawn, attributes]]) {
    for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
  }
  svg.append(drawn);
  return svg;
}

// A box beside the pointer with what is known of the place pointed at: a line of text, then amounts, each with its colour.
function tipOf() {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;

  function row(name, bytes, slot) {
    const item = document.createElement("p"), value = document.createElement("b");
    value.textContent = formatBytes(bytes);
    if (slot !== null) item.append(swatch("rect", 9, 9, { class: "area c" + slot, width: 9, height: 9 }));
    item.append(name, value);
    return item;
  }

  return {
    fill(lines, rows) {
      const text = lines.map((line) => Object.assign(document.createElement("p"), { className: "when", textContent: line }));
      tip.replaceChildren(text[0], ...rows.map((one) => row(...one)), ...text.slice(1));
    },
    // On the side of the pointer where there is room.
    place(plot) {
      const { left, top } = plot.cursor;
      tip.hidden = left < 0;
      tip.classList.toggle("leftwards", left > plot.over.clientWidth / 2);
      tip.style.left = left + "px";
      tip.style.top = Math.max(0, Math.min(top, plot.over.clientHeight - tip.clientHeight)) + "px";
    },
    on(plot) {
      plot.over.append(tip);
      plot.over.addEventListener("mouseleave", () => { tip.hidden = true; });
    },
  };
}
