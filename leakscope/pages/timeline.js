// The timeline: bands stacked on each other, lanes above them for what happened, a readout for the moment pointed at.
(function () {
  const timeline = DATA.timeline;
  const section = document.getElementById("timeline");
  if (!timeline || !section) return;
  const KIB = 1024, LANE = 16, HEIGHT = 320, NEAR_PX = 6, MOST_RULES = 12;
  const box = section.querySelector(".plot");
  const readout = section.querySelector(".readout");
  const legend = section.querySelector(".legend");
  const time = timeline.time_s;
  const state = { view: 0, hidden: [new Set(), new Set()], at: peak(), plot: null, build, show };
  const { visible } = steer(section, box, time, state);

  // Where the reader starts: the moment of most memory.
  function peak() {
    const total = time.map((_, i) => timeline.views[0].reduce((sum, band) => sum + band.kib[i], 0));
    return total.indexOf(Math.max(...total));
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

  // What lasted: as long as it did, with its name where there is room.
  function drawSpans(plot, lane, middle) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio, right = bbox.left + bbox.width;
    ctx.textAlign = "center";
    for (const [at, end, , name, slot] of lane.moments) {
      if (end === null) continue;
      const from = Math.max(bbox.left, plot.valToPos(at, "x", true)), to = Math.min(right, plot.valToPos(end, "x", true));
      if (to < bbox.left || from > right) continue;
      ctx.fillStyle = colour("c" + slot);
      ctx.fillRect(from, middle - 6 * ratio, Math.max(to - from, 1.5 * ratio), 12 * ratio);
      if (ctx.measureText(name).width + 8 * ratio > to - from) continue;
      ctx.fillStyle = colour("ink");
      ctx.fillText(name, (from + to) / 2, middle);
    }
    ctx.textAlign = "right";
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
      ctx.fillText(lane.name, bbox.left - 8 * ratio, middle);
      ctx.strokeStyle = colour(colours[lane.kind] || "soft");
      ctx.lineWidth = (lane.kind in { alert: 1, death: 1, pressure: 1 } ? 2 : 1.25) * ratio;
      drawSpans(plot, lane, middle);
      ctx.beginPath();
      for (const [at, end] of lane.moments) {
        if (end !== null || at < low || at > high) continue;
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
    const options = {
      width: chartWidth(box),
      height: HEIGHT + LANE * timeline.lanes.length,
      padding: [LANE * timeline.lanes.length + 6, 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 4 } },
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, (high || 1) * 1.04] } },
      axes: axes(true),
      series: [{}, ...stack.map((edge) => ({ fill: colour("c" + edge.slot), stroke: colour("paper"), width: 0.5, points: { show: false } }))],
      hooks: { draw: [drawLanes, show], setCursor: [pointed] },
    };
    if (state.plot) state.plot.destroy();
    state.plot = new uPlot(options, [time, ...stack.map((edge) => edge.values)], box);
    if (range) state.plot.setScale("x", range);
  }

  function pointed(plot) {
    const index = plot.cursor.idx;
    if (index === null || index === undefined) return;
    state.at = index;
    show();
  }

  function momentsNear(index) {
    const x = state.plot.valToPos(time[index], "x");
    const isNear = (at) => Math.abs(state.plot.valToPos(at, "x") - x) <= NEAR_PX;
    return timeline.lanes.flatMap((lane) => lane.moments.filter(([at]) => isNear(at)).map(([, , text]) => text));
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
      const value = document.createElement("span");
      value.className = "value";
      button.append(swatch("rect", 12, 12, { class: "area c" + band.slot, width: 12, height: 12, rx: 2 }), band.name, value);
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

  section.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => {
    state.view = Number(button.dataset.view);
    section.querySelectorAll("[data-view]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    buildLegend();
    build(visible());
  }));
  section.querySelector(".interactive").hidden = false;
  buildLegend();
  build();
})();
