// Two runs over each other: a line each, and a readout for the place pointed at.
(function () {
  const overlay = DATA.overlay;
  const section = document.getElementById("curves");
  if (!overlay || !section) return;
  const KIB = 1024, HEIGHT = 340, STYLES = [{ slot: 0, dash: [] }, { slot: 3, dash: [6, 4] }];
  const box = section.querySelector(".plot");
  const readout = section.querySelector(".readout");
  const legend = section.querySelector(".legend");
  const isTime = overlay.unit === "second";
  const values = overlay.runs.map((run) => run.kib.map((kib) => (kib === null ? null : kib * KIB)));
  const view = { at: lastCommon(), plot: null, build, show };

  // Where the reader starts: the end of what both runs did.
  function lastCommon() {
    const end = overlay.range[1];
    return Math.max(0, overlay.x.filter((x) => x <= end).length - 1);
  }

  // A rise of a tenth should be seen: the scale begins at zero only where the lines come near it.
  function heights(plot, low, high) {
    const floor = low > high / 2 ? low - (high - low) * 0.1 : 0;
    return [floor, (high || 1) * 1.02];
  }

  // What only the longer run did is left out of the comparison: it is drawn paler.
  function paleBeyond(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = colour("paper");
    ctx.globalAlpha = 0.6;
    const [first, last] = overlay.range.map((x) => Math.min(Math.max(plot.valToPos(x, "x", true), bbox.left), bbox.left + bbox.width));
    ctx.fillRect(bbox.left, bbox.top, first - bbox.left, bbox.height);
    ctx.fillRect(last, bbox.top, bbox.left + bbox.width - last, bbox.height);
    ctx.restore();
  }

  function build(range) {
    const lines = STYLES.map(({ slot, dash }) => ({ stroke: colour("c" + slot), width: 2, dash, spanGaps: false, points: { show: false } }));
    const options = {
      width: chartWidth(box),
      height: HEIGHT,
      padding: [10, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 4 } },
      scales: { x: { time: false }, y: { range: heights } },
      axes: axes(isTime),
      series: [{}, ...lines],
      hooks: { draw: [paleBeyond, show], setCursor: [pointed] },
    };
    if (view.plot) view.plot.destroy();
    view.plot = new uPlot(options, [overlay.x, ...values], box);
    if (range) view.plot.setScale("x", range);
  }

  function pointed(plot) {
    const index = plot.cursor.idx;
    if (index === null || index === undefined) return;
    view.at = index;
    show();
  }

  function show() {
    const x = overlay.x[view.at], [before, after] = values.map((run) => run[view.at]);
    const strong = document.createElement("b");
    strong.textContent = isTime ? formatDuration(x) : `step ${Math.round(x).toLocaleString("en")}`;
    const isBoth = before !== null && after !== null;
    const difference = isBoth ? ` · ${formatBytes(Math.abs(after - before))} ${after <= before ? "less" : "more"} than before` : "";
    readout.replaceChildren(strong, difference);
    legend.querySelectorAll(".value").forEach((value, run) => {
      const held = values[run][view.at];
      value.textContent = held === null ? "ended" : formatBytes(held);
    });
  }

  overlay.runs.forEach((run, number) => {
    const item = document.createElement("li");
    const value = document.createElement("span");
    value.className = "value";
    item.append(swatch("line", 18, 4, { class: "line c" + number, x2: 18, y1: 2, y2: 2 }), run.name, value);
    legend.append(item);
  });
  steer(section, box, overlay.x, view);
  section.querySelector(".interactive").hidden = false;
  build();
})();
