// Charts of lines or bands, as `plots.py` describes them: each drawn when it comes near the window.
(function () {
  const KIB = 1024, HEIGHT = 240, PROX_PX = 24, DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3]];

  function chart(section, plot) {
    const box = section.querySelector(".plot"), readout = section.querySelector(".readout"), legend = section.querySelector(".legend");
    const isTime = plot.unit === "s";
    const tables = plot.curves.map((curve) => [curve.x, curve.kib.map((kib) => (kib === null ? null : kib * KIB))]);
    const [xs, ...values] = tables.length > 1 ? uPlot.join(tables) : tables[0];
    const view = { at: start(), curve: plot.curves.length - 1, plot: null, build, show };
    const { visible } = steer(section, box, xs, view);
    const tip = tipOf();

    // Where the reader starts: at the end; of what is compared or laid over each other, where the last one still goes on.
    function start() {
      const last = plot.common ? plot.common[1] : plot.ordered ? plot.curves[plot.curves.length - 1].x.at(-1) : Infinity;
      return Math.max(0, xs.filter((x) => x <= last).length - 1);
    }

    // Of one curve at any place: between its own points on a straight line, null beyond its ends.
    function valueAt(number, at) {
      const [x, y] = tables[number];
      if (!x.length || at < x[0] || at > x[x.length - 1]) return null;
      let low = 0, high = x.length - 1;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (x[middle] <= at) low = middle; else high = middle;
      }
      if (x[high] === at || y[low] === null || y[high] === null) return x[high] === at ? y[high] : y[low];
      return y[low] + (y[high] - y[low]) * (at - x[low]) / (x[high] - x[low] || 1);
    }

    // A rise of a tenth should be seen: the scale begins at zero only where the lines come near it.
    function heights(u, low, high) {
      const floor = !plot.stacked && low > high / 2 ? low - (high - low) * 0.1 : 0;
      const isNear = plot.limit && plot.limit[0] <= 2 * high;
      return [floor, Math.max(high || 1, isNear ? plot.limit[0] : 0) * (plot.limit || plot.marks.length ? 1.12 : 1.02)];
    }

    // What nobody compared is paler; a limit lies across, and what failed stands upright.
    function drawAround(u) {
      const { ctx, bbox } = u, ratio = devicePixelRatio, right = bbox.left + bbox.width;
      const x = (at) => Math.min(Math.max(u.valToPos(at, "x", true), bbox.left), right);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      if (plot.common) {
        ctx.fillStyle = colour("paper");
        ctx.globalAlpha = 0.6;
        ctx.fillRect(bbox.left, bbox.top, x(plot.common[0]) - bbox.left, bbox.height);
        ctx.fillRect(x(plot.common[1]), bbox.top, right - x(plot.common[1]), bbox.height);
        ctx.globalAlpha = 1;
      }
      ctx.font = 11 * ratio + "px system-ui, sans-serif";
      ctx.textBaseline = "top";
      ctx.fillStyle = colour("ink");
      ctx.strokeStyle = colour("bad");
      ctx.lineWidth = 1.5 * ratio;
      ctx.setLineDash([]);
      ctx.beginPath();
      if (plot.limit) {
        const y = u.valToPos(plot.limit[0], "y", true);
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(right, y);
        ctx.textAlign = "left";
        ctx.fillText(plot.limit[1], bbox.left + 4 * ratio, Math.max(y + 3 * ratio, bbox.top + 3 * ratio));
      }
      plot.marks.forEach(([at, text], number) => {
        const left = x(at), isRight = left > bbox.left + bbox.width / 2;
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.textAlign = isRight ? "right" : "left";
        if (number < 4) ctx.fillText(text, left + (isRight ? -4 : 4) * ratio, bbox.top + (20 + 15 * number) * ratio);
      });
      ctx.stroke();
      ctx.restore();
    }

    // Of bands the edges, the highest first: each lower one is painted over it.
    function layers() {
      if (!plot.stacked) {
        return plot.curves.map((curve, number) => ({
          values: values[number],
          series: { stroke: colour("c" + curve.slot), width: plot.ordered ? 1.5 : 2, dash: DASHES[curve.dash], spanGaps: true, points: { show: curve.x.length < 30 && !plot.ordered, size: 5 } },
        }));
      }
      let floor = xs.map(() => 0);
      return plot.curves.map((curve, number) => {
        floor = floor.map((below, i) => below + (values[number][i] || 0));
        return { values: floor, series: { fill: colour("c" + curve.slot), stroke: colour("paper"), width: 0.5, points: { show: false } } };
      }).reverse();
    }

    function build(range) {
      const drawn = layers();
      const options = {
        width: chartWidth(box),
        height: HEIGHT,
        padding: [10, 14, 0, 0],
        legend: { show: false },
        focus: { alpha: 0.25 },
        cursor: { y: plot.ordered, points: { show: false }, focus: { prox: plot.ordered ? PROX_PX : -1 }, drag: { x: true, y: false, dist: 4 } },
        scales: { x: { time: false }, y: { range: heights } },
        axes: axes(isTime, plot.unit === "number"),
        series: [{}, ...drawn.map((layer) => layer.series)],
        hooks: { draw: [drawAround, show], setCursor: [pointed], setSeries: [(u, number) => { if (plot.ordered && number) view.curve = number - 1; show(); }] },
      };
      if (view.plot) view.plot.destroy();
      view.plot = new uPlot(options, [xs, ...drawn.map((layer) => layer.values)], box);
      if (range) view.plot.setScale("x", range);
      tip.on(view.plot);
    }

    function pointed(u) {
      const index = u.cursor.idx;
      if (index === null || index === undefined) return;
      view.at = index;
      show();
      if (u.cursor.event) tip.place(u);
    }

    function name(x) {
      return plot.names[String(x)] || (isTime ? formatDuration(x) : plot.unit === "step" ? `step ${Math.round(x).toLocaleString("en")}` : String(x));
    }

    function show() {
      const x = xs[view.at], held = plot.curves.map((curve, number) => valueAt(number, x));
      const strong = document.createElement("b");
      strong.textContent = name(x);
      readout.replaceChildren(strong, compared(held) + (plot.ordered ? ` · ${told(view.curve, held)}` : ""));
      legend.querySelectorAll(".value").forEach((value, number) => {
        value.textContent = held[number] === null ? (plot.base ? "ended" : "") : formatBytes(held[number]);
      });
      const rows = plot.ordered ? [view.curve] : plot.curves.map((curve, number) => number).reverse();
      tip.fill([name(x)], rows.filter((number) => held[number] !== null).map((number) => [plot.curves[number].name, held[number], plot.curves[number].slot]));
    }

    function told(number, held) {
      return `${plot.curves[number].name}: ${held[number] === null ? "ended" : formatBytes(held[number])}`;
    }

    function compared(held) {
      const [first, last] = [held[0], held[held.length - 1]];
      if (!plot.base || first === null || last === null) return "";
      return ` · ${formatBytes(Math.abs(last - first))} ${last <= first ? "less" : "more"} than ${plot.base}`;
    }

    // Up and down choose one of the lines, as left and right choose a place.
    function choose(event) {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!plot.ordered || !by) return;
      event.preventDefault();
      view.curve = Math.min(Math.max(view.curve + by, 0), plot.curves.length - 1);
      view.plot.setSeries(view.curve + 1, { focus: true });
      show();
    }

    function label(curve) {
      if (!curve.link) return document.createTextNode(curve.name);
      return Object.assign(document.createElement("a"), { href: "#" + curve.link, textContent: curve.name });
    }

    function fillLegend() {
      if (plot.ordered) return;
      plot.curves.forEach((curve) => {
        const item = document.createElement("li"), value = document.createElement("span");
        value.className = "value";
        const mark = plot.stacked
          ? swatch("rect", 12, 12, { class: "area c" + curve.slot, width: 12, height: 12, rx: 2 })
          : swatch("line", 18, 4, { class: `line c${curve.slot} d${curve.dash}`, x2: 18, y1: 2, y2: 2 });
        item.append(mark, label(curve), value);
        legend.append(item);
      });
    }

    fillLegend();
    build();
    box.addEventListener("keydown", choose);
    return () => build(visible());
  }

  document.querySelectorAll("[data-plot]").forEach((section) => {
    section.hidden = false;
    whenNear(section, () => chart(section, DATA.plots[section.dataset.plot]));
  });
})();
