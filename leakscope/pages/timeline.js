// The timeline: bands stacked on each other, lanes above them for what happened, a readout for the moment pointed at.
(function () {
  const timeline = DATA.timeline;
  const section = document.getElementById("timeline");
  if (!timeline || !section) return;
  const UNIT = timeline.unit_bytes, LANE = 16, NEAR_PX = 6, MOST_RULES = 12, MOST_ROWS = 6;
  const HEIGHT = innerWidth < 720 ? 220 : 280;
  timeline.views.forEach((view) => view.bands.forEach((band) => {
    let level = 0;
    band.units = band.steps.map((step) => (level += step));
  }));
  const { outlook, frame } = timeline, last = frame.last_s;
  const box = section.querySelector(".plot");
  const readout = section.querySelector(".readout");
  const legend = section.querySelector(".legend");
  const time = timeline.time_s;
  const state = { view: 0, hidden: [new Set(), new Set()], at: peak(), plot: null, last, build, show };
  const tip = tipOf();
  const { visible } = steer(section, box, time, state);

  // Where the reader starts: the moment of most memory.
  function peak() {
    const total = time.map((_, i) => timeline.views[0].bands.reduce((sum, band) => sum + band.units[i], 0));
    return total.indexOf(Math.max(...total));
  }

  function shownBands() {
    return timeline.views[state.view].bands.filter((band, number) => !state.hidden[state.view].has(number));
  }

  // The highest edge first: each lower one is painted over it.
  function edges(bands) {
    const stack = [];
    let floor = new Array(time.length).fill(0);
    for (const band of bands) {
      floor = floor.map((below, i) => below + band.units[i] * UNIT);
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

  // Bytes of the straight line through the judged window, also beyond it.
  function lineAt(at) {
    return outlook.start_bytes + (outlook.end_bytes - outlook.start_bytes) * (at - outlook.start_s) / (outlook.end_s - outlook.start_s);
  }

  // What was not judged is paler; the line of the growth goes on to the limit.
  function drawOutlook(plot) {
    if (!outlook) return;
    const { ctx, bbox } = plot, ratio = devicePixelRatio, right = bbox.left + bbox.width;
    const x = (at) => Math.min(Math.max(plot.valToPos(at, "x", true), bbox.left), right);
    const y = (bytes) => plot.valToPos(bytes, "y", true);
    const label = (text, align, at, top) => {
      const width = ctx.measureText(text).width + 8 * ratio, left = align === "right" ? at - width : at;
      ctx.fillStyle = colour("paper");
      ctx.fillRect(left, top - 2 * ratio, width, 16 * ratio);
      ctx.fillStyle = colour("ink");
      ctx.textAlign = "left";
      ctx.fillText(text, left + 4 * ratio, top);
    };
    const stroke = (name, width, dash, from, to) => {
      ctx.strokeStyle = colour(name);
      ctx.lineWidth = width * ratio;
      ctx.setLineDash(dash.map((length) => length * ratio));
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
    };
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = colour("paper");
    ctx.globalAlpha = 0.55;
    ctx.fillRect(bbox.left, bbox.top, x(outlook.start_s) - bbox.left, bbox.height);
    ctx.fillRect(x(outlook.end_s), bbox.top, right - x(outlook.end_s), bbox.height);
    ctx.globalAlpha = 1;
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "top";
    const top = bbox.top + 4 * ratio;
    if (timeline.full) label(timeline.full, "right", right - 2 * ratio, top);
    if (outlook.began_s !== null) {
      stroke("ink", 1, [2, 3], [x(outlook.began_s), bbox.top], [x(outlook.began_s), bbox.top + bbox.height]);
      label("grows since here", "left", x(outlook.began_s) + 2 * ratio, bbox.top + bbox.height - 18 * ratio);
    }
    if (outlook.end_bytes !== null) {
      const end = Math.min(last, outlook.full_s ?? last);
      const pos = (at) => [plot.valToPos(at, "x", true), y(lineAt(at))];
      stroke("bad", 2, [], pos(outlook.start_s), pos(outlook.end_s));
      stroke("bad", 2, [6, 4], pos(outlook.end_s), pos(end));
    }
    if (frame.limit_bytes !== null) stroke("bad", 1.5, [], [bbox.left, y(frame.limit_bytes)], [right, y(frame.limit_bytes)]);
    ctx.restore();
  }

  // In a part of the run a rise of a tenth should be seen; the whole run begins at zero.
  function heights(plot, low, high) {
    const [from, to] = plot.series[0].idxs || [0, time.length - 1];
    const least = plot.series[1] ? plot.series[1].min : 0;
    const isPart = to - from < time.length - 1;
    if (isPart && least > high / 2) return [Math.max(0, least - (high - least) * 0.3), high + (high - least || 1) * 0.15];
    return [0, Math.max(high || 1, isPart ? 0 : frame.top_bytes) * (outlook ? 1.14 : 1.04)];
  }

  function build(range) {
    const stack = edges(shownBands());
    const options = {
      width: chartWidth(box),
      height: HEIGHT + LANE * timeline.lanes.length,
      padding: [LANE * timeline.lanes.length + 6, 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 4 } },
      scales: { x: { time: false }, y: { range: heights } },
      axes: axes(true),
      series: [{}, ...stack.map((edge) => ({ fill: colour("c" + edge.slot), stroke: colour("paper"), width: 0.5, points: { show: false } }))],
      hooks: { draw: [drawOutlook, drawLanes, show], setCursor: [pointed] },
    };
    if (state.plot) state.plot.destroy();
    state.plot = new uPlot(options, [time, ...stack.map((edge) => edge.values)], box);
    state.plot.setScale("x", range || { min: time[0], max: last });
    tip.on(state.plot);
  }

  function pointed(plot) {
    const index = plot.cursor.idx;
    if (index === null || index === undefined) return;
    state.at = index;
    show();
    if (plot.cursor.event) tip.place(plot);
  }

  function momentsNear(index) {
    const x = state.plot.valToPos(time[index], "x");
    const isNear = (at) => Math.abs(state.plot.valToPos(at, "x") - x) <= NEAR_PX;
    return timeline.lanes.flatMap((lane) => lane.moments.filter(([at]) => isNear(at)).map(([, , text]) => text));
  }

  function show() {
    const index = state.at;
    let total = 0;
    timeline.views[state.view].bands.forEach((band, number) => {
      legend.querySelector(`[data-band="${number}"] .value`).textContent = formatBytes(band.units[index] * UNIT);
      if (!state.hidden[state.view].has(number)) total += band.units[index] * UNIT;
    });
    const step = timeline.step[index];
    const facts = [formatDuration(time[index])];
    if (step !== null && step !== undefined) facts.push(`step ${step.toLocaleString("en")}`);
    const near = momentsNear(index);
    const more = near.length > 3 ? [`and ${near.length - 3} more`] : [];
    const strong = document.createElement("b");
    strong.textContent = formatBytes(total);
    readout.replaceChildren(strong, " · " + [...facts, ...near.slice(0, 3), ...more].join(" · "));
    fillTip(index, [facts.join(" · "), ...near.slice(0, 3), ...more], total);
  }

  function fillTip(index, lines, total) {
    const bands = shownBands().map((band) => [band.name, band.units[index] * UNIT, band.slot]).filter(([, bytes]) => bytes > 0);
    bands.sort((a, b) => (b[2] === 12) - (a[2] === 12) || b[1] - a[1]);
    tip.fill(lines, [["all", total, null], ...bands.slice(0, MOST_ROWS)]);
  }

  // The legend stands in the order of the stack, the top band first.
  function buildLegend() {
    legend.replaceChildren();
    timeline.views[state.view].bands.map((band, number) => [band, number]).reverse().forEach(([band, number]) => {
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
  performance.mark("timeline drawn");
})();
