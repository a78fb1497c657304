// Charts of lines or bands, as `plots.py` describes them: each drawn when it comes near the window.
const DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3]];
const LANE = 16, LANE_COLOURS = { alert: "bad", death: "bad", pressure: "unsure", phase: "accent", mark: "accent" };

// Values as they are, from the differences that are written.
function curvesOf(plot, curves) {
  return curves.map((curve) => {
    let level = 0;
    return { ...curve, x: curve.x || plot.x, y: curve.steps.map((step) => (step === null ? null : (level += step) * plot.unit_bytes)) };
  });
}

function chart(section, plot, key) {
  const PROX_PX = 24, NEAR_PX = 6, MOST_RULES = 12, MOST_ROWS = 6, MOST_NAMED = 4, LATE = 0.04;
  const box = section.querySelector(".plot"), readout = section.querySelector(".readout"), legend = section.querySelector(".legend");
  const isTime = plot.unit === "s", lanesHeight = LANE * plot.lanes.length;
  const height = lanesHeight ? (matchMedia("(max-width: 720px)").matches ? 220 : 280) : 240;
  const divisions = plot.divisions.map((one) => curvesOf(plot, one.curves)), hidden = divisions.map(() => new Set());
  const joined = divisions[0].length > 1 && !plot.x ? uPlot.join(divisions[0].map((curve) => [curve.x, curve.y])) : [divisions[0][0].x];
  const whole = joined[0], first = whole[0], last = plot.last ?? whole[whole.length - 1];
  const view = { xs: whole, divisions, steps: plot.steps, at: 0, last, division: 0, curve: divisions[0].length - 1, plot: null, build, show };
  view.at = start();
  const { visible } = steer(section, box, view);
  const tip = tipOf();

  // Where the reader starts: where the plot says, else at the end; of what is compared, where the last one still goes on.
  function start() {
    if (plot.first_seen !== null) return Math.max(0, whole.indexOf(plot.first_seen));
    const last = plot.common ? plot.common[1] : plot.ordered ? divisions[0][divisions[0].length - 1].x.at(-1) : Infinity;
    return Math.max(0, whole.filter((x) => x <= last).length - 1);
  }

  function curves() {
    return view.divisions[view.division];
  }

  function isShown(number) {
    return !hidden[view.division].has(number);
  }

  // Of one curve at any place: between its own points on a straight line, null beyond its ends. Where nothing was read at
  // that place, what was read shortly before: recordings of ranks begin and end a moment apart.
  function valueAt({ x, y }, at) {
    if (!x.length || at < x[0] || at > x[x.length - 1]) return null;
    let low = 0, high = x.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (x[middle] <= at) low = middle; else high = middle;
    }
    if (x[high] !== at && y[low] !== null && y[high] !== null) return y[low] + (y[high] - y[low]) * (at - x[low]) / (x[high] - x[low] || 1);
    let read = x[high] === at ? high : low;
    while (read > 0 && y[read] === null && at - x[read - 1] <= LATE * (last - first)) read -= 1;
    return y[read];
  }

  // A rise of a tenth should be seen: the scale begins at zero only where all is shown, or lines come near it.
  function heights(u, low, high) {
    const { min, max } = u.scales.x, isPart = min !== null && max - min < 0.999 * (last - first);
    const least = !plot.stacked ? low : isPart && u.series[1] ? u.series[1].min : 0;
    const floor = least > high / 2 ? Math.max(0, least - (high - least) * 0.2) : 0;
    const isLabelled = plot.limit || plot.marks.length || plot.trend;
    return [floor, (isPart ? high + (high - floor) * 0.1 : Math.max(high, plot.top) * (isLabelled ? 1.14 : 1.03)) || 1];
  }

  // What lies on the chart: what was not judged is paler, the growth goes on to the limit, what failed stands upright.
  function drawAround(u) {
    const { ctx, bbox } = u, ratio = devicePixelRatio, right = bbox.left + bbox.width, bottom = bbox.top + bbox.height;
    const x = (at) => Math.min(Math.max(u.valToPos(at, "x", true), bbox.left), right);
    const y = (value) => u.valToPos(value, "y", true);
    const label = (text, at, top, isLeftwards) => {
      const width = ctx.measureText(text).width + 8 * ratio, left = isLeftwards ? at - width : at;
      ctx.fillStyle = colour("paper");
      ctx.globalAlpha = 0.8;
      ctx.fillRect(left, top - 2 * ratio, width, 16 * ratio);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour("ink");
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
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    if (plot.common) {
      ctx.fillStyle = colour("paper");
      ctx.globalAlpha = 0.55;
      ctx.fillRect(bbox.left, bbox.top, x(plot.common[0]) - bbox.left, bbox.height);
      ctx.fillRect(x(plot.common[1]), bbox.top, right - x(plot.common[1]), bbox.height);
      ctx.globalAlpha = 1;
    }
    if (plot.trend) {
      const { start, end, until } = plot.trend, slope = (end[1] - start[1]) / (end[0] - start[0] || 1);
      const point = (at) => [u.valToPos(at, "x", true), y(start[1] + slope * (at - start[0]))];
      stroke("bad", 2, [], point(start[0]), point(end[0]));
      stroke("bad", 2, [6, 4], point(end[0]), point(until));
    }
    if (plot.onset) {
      stroke("ink", 1, [2, 3], [x(plot.onset[0]), bbox.top], [x(plot.onset[0]), bottom]);
      label(plot.onset[1], x(plot.onset[0]) + 2 * ratio, bottom - 18 * ratio);
    }
    let free = bbox.top + 4 * ratio; // below the names that stand there
    if (plot.limit) {
      const [limit, text, isNear] = plot.limit;
      free = Math.max(isNear ? y(limit) + 3 * ratio : 0, free);
      if (isNear) stroke("bad", 1.5, [], [bbox.left, y(limit)], [right, y(limit)]);
      label(text, plot.trend ? right - 2 * ratio : bbox.left, free, plot.trend);
      free += 16 * ratio;
    }
    plot.marks.forEach(([at, text], number) => {
      const isRight = x(at) > bbox.left + bbox.width / 2;
      stroke("bad", 1.5, [], [x(at), bbox.top], [x(at), bottom]);
      if (number < MOST_NAMED) label(text, x(at), free + 15 * number * ratio, isRight);
    });
    ctx.restore();
  }

  // What happened, in rows above the chart: what lasted as long as it did, with its name where there is room.
  function drawLanes(u) {
    const { ctx, bbox } = u, ratio = devicePixelRatio, right = bbox.left + bbox.width;
    const [low, high] = [u.scales.x.min, u.scales.x.max];
    ctx.save();
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    plot.lanes.forEach((lane, row) => {
      const middle = (row + 0.5) * LANE * ratio, isGrave = lane.kind === "alert" || lane.kind === "death";
      ctx.textAlign = "right";
      ctx.fillStyle = colour("soft");
      ctx.fillText(lane.name, bbox.left - 8 * ratio, middle);
      ctx.strokeStyle = colour(LANE_COLOURS[lane.kind] || "soft");
      ctx.lineWidth = (isGrave || lane.kind === "pressure" ? 2 : 1.25) * ratio;
      ctx.textAlign = "center";
      ctx.beginPath();
      for (const [at, end, , name, slot] of lane.marks) {
        const from = Math.max(bbox.left, u.valToPos(at, "x", true)), to = Math.min(right, u.valToPos(end ?? at, "x", true));
        if (to < bbox.left || from > right || (end === null && (at < low || at > high))) continue;
        if (end !== null) {
          ctx.fillStyle = colour("c" + slot);
          ctx.fillRect(from, middle - 6 * ratio, Math.max(to - from, 1.5 * ratio), 12 * ratio);
          ctx.fillStyle = colour("ink");
          if (ctx.measureText(name).width + 8 * ratio <= to - from) ctx.fillText(name, (from + to) / 2, middle);
          continue;
        }
        ctx.moveTo(from, middle - 5 * ratio);
        ctx.lineTo(from, middle + 5 * ratio);
        if (isGrave && lane.marks.length <= MOST_RULES) {
          ctx.moveTo(from, bbox.top);
          ctx.lineTo(from, bbox.top + bbox.height);
        }
      }
      ctx.stroke();
    });
    ctx.restore();
  }

  // Of bands the edges, the highest first: each lower one is painted over it.
  function layers() {
    if (!plot.stacked) {
      return curves().map((curve, number) => ({
        values: joined.length > 1 ? joined[number + 1] : curve.y,
        series: { stroke: colour("c" + curve.slot), width: plot.ordered ? 1.5 : 2, dash: DASHES[curve.dash], spanGaps: true, points: { show: curve.x.length < 30 && !plot.ordered, size: 5 } },
      }));
    }
    let floor = new Array(view.xs.length).fill(0);
    return curves().filter((curve, number) => isShown(number)).map((curve) => {
      floor = floor.map((below, i) => below + (curve.y[i] || 0));
      return { values: floor, series: { fill: colour("c" + curve.slot), stroke: colour("paper"), width: 0.5, points: { show: false } } };
    }).reverse();
  }

  function build(range) {
    const width = chartWidth(box);
    colours.clear();
    const drawn = layers();
    const options = {
      width,
      height: height + lanesHeight,
      padding: [lanesHeight + (lanesHeight ? 6 : 10), 14, 0, 0],
      legend: { show: false },
      focus: { alpha: 0.25 },
      cursor: { y: plot.ordered, points: { show: false }, focus: { prox: plot.ordered ? PROX_PX : -1 }, drag: { x: true, y: false, dist: 4 } },
      scales: { x: { time: false }, y: { range: heights } },
      axes: axes(plot.unit),
      series: [{}, ...drawn.map((layer) => layer.series)],
      hooks: { draw: [drawAround, drawLanes, show], setCursor: [pointed], setScale: [(u, scale) => scale === "x" && refine(u)], setSeries: [(u, number) => { if (plot.ordered && number) view.curve = number - 1; show(); }] },
    };
    if (view.plot) view.plot.destroy();
    view.plot = new uPlot(options, [view.xs, ...drawn.map((layer) => layer.values)], box);
    view.plot.setScale("x", range || { min: first, max: last });
    tip.on(view.plot);
  }

  // Where a server has more, it is asked for what somebody zooms to, once the zooming has come to rest.
  let asked = 0, refined = null;
  async function refine(u) {
    const { min, max } = u.scales.x, number = ++asked;
    if (!DATA.is_paged || !plot.divisions[0].by || (refined && refined.min === min && refined.max === max)) return;
    if (!(max - min < 0.999 * (last - first))) return void (refined = null);
    await new Promise((rested) => setTimeout(rested, 200));
    if (number !== asked) return;
    const part = await fetch(`timeline?from=${min}&to=${max}`).then((answer) => answer.json()).catch(() => null);
    if (number !== asked || !part) return;
    refined = { min, max };
    place(part);
    build(refined);
  }

  // A part with more places takes the place of what the whole has there.
  function place(part) {
    const at = view.xs[view.at], from = part.x[0], to = part.x[part.x.length - 1];
    const before = whole.filter((x) => x < from).length, after = whole.filter((x) => x <= to).length;
    const spliced = (values, inner) => [...values.slice(0, before), ...inner, ...values.slice(after)];
    view.xs = spliced(whole, part.x);
    view.steps = plot.steps.length ? spliced(plot.steps, part.steps.length ? part.steps : part.x.map(() => null)) : [];
    view.divisions = divisions.map((curves, number) => {
      const inner = part.divisions.find((one) => one.by === plot.divisions[number].by);
      const known = new Map(curvesOf(part, inner.curves).map((curve) => [curve.name, curve.y]));
      return curves.map((curve) => ({ ...curve, x: view.xs, y: spliced(curve.y, known.get(curve.name) || part.x.map(() => 0)) }));
    });
    view.at = Math.max(0, view.xs.filter((x) => x <= at).length - 1);
    section.dataset.places = view.xs.length;
  }

  function pointed(u) {
    const index = u.cursor.idx;
    if (index === null || index === undefined) return;
    view.at = index;
    show();
    if (u.cursor.event) tip.place(u);
  }

  // The place itself, and what is known of it besides: the step, and what happened there.
  function told() {
    const x = view.xs[view.at], step = view.steps[view.at];
    const named = isTime ? formatDuration(x) : plot.unit === "number" ? String(x) : `${plot.unit} ${formatCount(Math.round(x))}`;
    const facts = [plot.names[String(x)] || named];
    if (step !== null && step !== undefined) facts.push(`${plot.step_unit} ${formatCount(step)}`);
    const isNear = (at) => Math.abs(view.plot.valToPos(at, "x") - view.plot.valToPos(x, "x")) <= NEAR_PX;
    const near = plot.lanes.flatMap((lane) => lane.marks.filter(([at]) => isNear(at)).map(([, , text]) => text));
    return [facts.join(" \u00b7 "), ...near.slice(0, 3), ...(near.length > 3 ? [`and ${near.length - 3} more`] : [])];
  }

  function show() {
    const lines = told(), held = curves().map((curve) => valueAt(curve, view.xs[view.at]));
    const total = held.reduce((sum, value, number) => sum + (isShown(number) ? value || 0 : 0), 0);
    const files = held[curves().findIndex((curve, number) => curve.name === "mapped-files" && isShown(number))];
    const strong = document.createElement("b");
    strong.textContent = plot.stacked ? formatBytes(total) : lines[0];
    const ofIt = files ? [`of it ${formatBytes(files)} of mapped files`] : [];  // which no peak counts
    readout.replaceChildren(strong, plot.stacked ? " \u00b7 " + [...ofIt, ...lines].join(" \u00b7 ") : compared(held) + ordered(held));
    legend.querySelectorAll("[data-band]").forEach((item) => {
      const value = held[Number(item.dataset.band)];
      item.querySelector(".value").textContent = value !== null ? formatBytes(value) : plot.base ? "ended" : "\u2013";
    });
    tip.fill(lines, rows(held, total));
  }

  // Beside the pointer: the culprit and the largest bands, or all lines from top to bottom, or the line pointed at.
  function rows(held, total) {
    const numbers = plot.ordered ? [view.curve] : curves().map((curve, number) => number).reverse();
    const known = numbers.filter((number) => held[number] !== null && isShown(number)).map((number) => [curves()[number].name, held[number], curves()[number].slot]);
    if (!plot.stacked) return known;
    const seen = known.filter(([, bytes]) => bytes > 0).sort((a, b) => (b[2] === 12) - (a[2] === 12) || b[1] - a[1]);
    return [["all", total, null], ...seen.slice(0, MOST_ROWS)];
  }

  function ordered(held) {
    if (!plot.ordered) return "";
    return ` \u00b7 ${curves()[view.curve].name}: ${held[view.curve] === null ? "ended" : formatBytes(held[view.curve])}`;
  }

  function compared(held) {
    const [one, other] = [held[0], held[held.length - 1]];
    if (!plot.base || one === null || other === null) return "";
    return ` \u00b7 ${formatBytes(Math.abs(other - one))} ${other <= one ? "less" : "more"} than ${plot.base}`;
  }

  // Up and down choose one of the lines, as left and right choose a place.
  function choose(event) {
    const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!plot.ordered || !by) return;
    event.preventDefault();
    view.curve = Math.min(Math.max(view.curve + by, 0), curves().length - 1);
    view.plot.setSeries(view.curve + 1, { focus: true });
    show();
  }

  // The name of a band is a button that hides it, or leads to its finding.
  function label(curve, number) {
    if (curve.link && document.getElementById(curve.link)) return Object.assign(document.createElement("a"), { href: "#" + curve.link, textContent: curve.name });
    if (!plot.stacked) return document.createTextNode(curve.name);
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: curve.name });
    button.setAttribute("aria-pressed", String(isShown(number)));
    button.addEventListener("click", () => {
      const without = hidden[view.division];
      if (!without.delete(number)) without.add(number);
      button.setAttribute("aria-pressed", String(isShown(number)));
      build(visible());
    });
    return button;
  }

  // Bands stand in the order of the stack, the top one first.
  function fillLegend() {
    if (plot.ordered) return;
    const items = curves().map((curve, number) => {
      const item = document.createElement("li"), value = document.createElement("span");
      item.dataset.band = number;
      value.className = "value";
      const mark = plot.stacked
        ? swatch("rect", 12, 12, { class: "area c" + curve.slot, width: 12, height: 12, rx: 2 })
        : swatch("line", 18, 4, { class: `line c${curve.slot} d${curve.dash}`, x2: 18, y1: 2, y2: 2 });
      item.append(mark, label(curve, number), value);
      return item;
    });
    legend.replaceChildren(...(plot.stacked ? items.reverse() : items));
  }

  const buttons = section.querySelectorAll("[data-view]");
  buttons.forEach((button) => button.addEventListener("click", () => {
    view.division = Number(button.dataset.view);
    buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    fillLegend();
    build(visible());
  }));
  build();
  fillLegend();
  box.addEventListener("keydown", choose);
  performance.mark(key + " drawn");
}

// Those of which the data is there, and so many of them at once; the others come later.
function drawPlots(count) {
  const plotOf = (section) => (DATA.plots || {})[section.dataset.plot];
  const known = [...ROOT.querySelectorAll("[data-plot][hidden]")].filter(plotOf);
  const draw = (section) => chart(section, plotOf(section), section.dataset.plot);
  known.forEach((section) => { section.hidden = false; });
  known.slice(0, count).forEach(draw);
  whenNear(known.slice(count), draw);
}
drawPlots(1);
