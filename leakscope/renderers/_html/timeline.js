// The timeline: bands stacked on each other, lanes above them for what happened, a readout for the moment pointed at.
(function () {
  const timeline = DATA.timeline;
  const section = document.getElementById("timeline");
  if (!timeline || !section) return;
  const KIB = 1024, GUTTER = 80, LANE = 16, HEIGHT = 320, NEAR_PX = 6, MOST_RULES = 12;
  const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const box = section.querySelector(".plot");
  const readout = section.querySelector(".readout");
  const legend = section.querySelector(".legend");
  const time = timeline.time_s;
  const state = { view: 0, hidden: [new Set(), new Set()], at: peak() };
  let plot = null;

  // Where the reader starts: the moment of most memory.
  function peak() {
    const total = time.map((_, i) => timeline.views[0].reduce((sum, band) => sum + band.kib[i], 0));
    return total.indexOf(Math.max(...total));
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function shownBands() {
    return timeline.views[state.view].filter((band, number) => !state.hidden[state.view].has(number));
  }

  // The highest edge first: each lower one is painted over it.
  function edges(bands) {
    const stack = [];
    let floor = new Array(time.length).fill(0);
    for (const band of bands) {
      floor = floor.map((below, i) => below + band.kib[i] * KIB);
      stack.unshift({ slot: band.slot, values: floor });
    }
    return stack;
  }

  function clock(seconds, span) {
    const whole = Math.round(seconds), pad = (n) => String(n).padStart(2, "0");
    if (span < 5) return seconds.toFixed(1) + " s";
    if (whole < 60 && span < 600) return whole + " s";
    if (whole < 3600) return Math.floor(whole / 60) + ":" + pad(whole % 60);
    const day = whole >= 172800 ? Math.floor(whole / 86400) + " d " : "";
    const hours = day ? Math.floor(whole % 86400 / 3600) : Math.floor(whole / 3600);
    return day + hours + ":" + pad(Math.floor(whole % 3600 / 60)) + (span < 600 ? ":" + pad(whole % 60) : " h");
  }

  function byteTicks(plot, axis, low, high) {
    const step = 2 ** Math.ceil(Math.log2(Math.max(high - low, 4) / 6));
    const ticks = [];
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) ticks.push(value);
    return ticks;
  }

  function drawLanes(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    const [low, high] = [plot.scales.x.min, plot.scales.x.max];
    const colours = { alert: "bad", death: "bad", pressure: "unsure", phase: "accent", mark: "accent" };
    ctx.save();
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    timeline.lanes.forEach((lane, row) => {
      const middle = (row + 0.5) * LANE * ratio;
      ctx.fillStyle = colour("soft");
      ctx.fillText(lane.name.replace("ended by a signal", "ended"), bbox.left - 8 * ratio, middle);
      ctx.strokeStyle = colour(colours[lane.kind] || "soft");
      ctx.lineWidth = (lane.kind in { alert: 1, death: 1, pressure: 1 } ? 2 : 1.25) * ratio;
      ctx.beginPath();
      for (const [at] of lane.moments) {
        if (at < low || at > high) continue;
        const x = plot.valToPos(at, "x", true);
        ctx.moveTo(x, middle - 5 * ratio);
        ctx.lineTo(x, middle + 5 * ratio);
        if ((lane.kind === "alert" || lane.kind === "death") && lane.moments.length <= MOST_RULES) {
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
        }
      }
      ctx.stroke();
    });
    ctx.restore();
  }

  function build(range) {
    const stack = edges(shownBands());
    const axis = { stroke: colour("soft"), font: "11px system-ui, sans-serif", grid: { stroke: colour("hair"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(280, box.clientWidth),
      height: HEIGHT + LANE * timeline.lanes.length,
      padding: [LANE * timeline.lanes.length + 6, 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 4 } },
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, (high || 1) * 1.04] } },
      axes: [
        { ...axis, size: 30, space: 64, incrs: STEPS_S, values: (u, values) => values.map((v) => clock(v, u.scales.x.max - u.scales.x.min)) },
        { ...axis, size: GUTTER, splits: byteTicks, values: (u, values) => values.map((v) => formatBytes(v).replace(".0 ", " ")) },
      ],
      series: [{}, ...stack.map((edge) => ({ fill: colour("c" + edge.slot), stroke: colour("paper"), width: 0.5, points: { show: false } }))],
      hooks: { draw: [drawLanes, show], setCursor: [pointed] },
    };
    if (plot) plot.destroy();
    plot = new uPlot(options, [time, ...stack.map((edge) => edge.values)], box);
    if (range) plot.setScale("x", range);
  }

  function pointed(plot) {
    const index = plot.cursor.idx;
    if (index === null || index === undefined) return;
    state.at = index;
    show();
  }

  function momentsNear(index) {
    const x = plot.valToPos(time[index], "x");
    return timeline.lanes.flatMap((lane) => lane.moments.filter(([at]) => Math.abs(plot.valToPos(at, "x") - x) <= NEAR_PX).map(([, text]) => text));
  }

  function show() {
    const index = state.at;
    let total = 0;
    timeline.views[state.view].forEach((band, number) => {
      legend.querySelector(`[data-band="${number}"] .value`).textContent = formatBytes(band.kib[index] * KIB);
      if (!state.hidden[state.view].has(number)) total += band.kib[index] * KIB;
    });
    const step = timeline.step[index];
    const facts = [formatDuration(time[index])];
    if (step !== null && step !== undefined) facts.push(`step ${step.toLocaleString("en")}`);
    const near = momentsNear(index);
    const more = near.length > 3 ? [`and ${near.length - 3} more`] : [];
    const strong = document.createElement("b");
    strong.textContent = formatBytes(total);
    readout.replaceChildren(strong, " · " + [...facts, ...near.slice(0, 3), ...more].join(" · "));
  }

  // The legend stands in the order of the stack, the top band first.
  function buildLegend() {
    legend.replaceChildren();
    timeline.views[state.view].map((band, number) => [band, number]).reverse().forEach(([band, number]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.band = number;
      button.setAttribute("aria-pressed", String(!state.hidden[state.view].has(number)));
      const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      swatch.setAttribute("width", 12);
      swatch.setAttribute("height", 12);
      swatch.setAttribute("aria-hidden", "true");
      const square = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      square.setAttribute("class", "area c" + band.slot);
      for (const side of ["width", "height"]) square.setAttribute(side, 12);
      square.setAttribute("rx", 2);
      swatch.append(square);
      const value = document.createElement("span");
      value.className = "value";
      button.append(swatch, band.name, value);
      button.addEventListener("click", () => {
        const hidden = state.hidden[state.view];
        if (!hidden.delete(number)) hidden.add(number);
        button.setAttribute("aria-pressed", String(!hidden.has(number)));
        build(visible());
      });
      const item = document.createElement("li");
      item.append(button);
      legend.append(item);
    });
  }

  function visible() {
    return { min: plot.scales.x.min, max: plot.scales.x.max };
  }

  function zoom(how) {
    const { min, max } = visible(), [first, last] = [time[0], time[time.length - 1]];
    const half = (max - min) / 2 * (how === "in" ? 0.5 : 2), centre = Math.min(Math.max(time[state.at], min), max);
    const range = { min: Math.max(first, centre - half), max: Math.min(last, centre + half) };
    plot.setScale("x", how === "all" ? { min: first, max: last } : range);
  }

  function moveTo(index) {
    state.at = Math.min(Math.max(index, 0), time.length - 1);
    plot.setCursor({ left: plot.valToPos(time[state.at], "x"), top: 0 }, false);
    show();
  }

  box.addEventListener("keydown", (event) => {
    const stride = event.shiftKey ? Math.ceil(time.length / 20) : 1;
    const actions = {
      ArrowLeft: () => moveTo(state.at - stride), ArrowRight: () => moveTo(state.at + stride),
      Home: () => moveTo(0), End: () => moveTo(time.length - 1),
      "+": () => zoom("in"), "=": () => zoom("in"), "-": () => zoom("out"), "0": () => zoom("all"), Escape: () => zoom("all"),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
  section.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(button.dataset.zoom)));
  section.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => {
    state.view = Number(button.dataset.view);
    section.querySelectorAll("[data-view]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    buildLegend();
    build(visible());
  }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => build(visible()));
  new ResizeObserver(() => plot && plot.setSize({ width: Math.max(280, box.clientWidth), height: plot.height })).observe(box);

  section.querySelector(".interactive").hidden = false;
  buildLegend();
  build();
})();
