// The heap as nested boxes: a click goes down, the top box goes up again, a search marks names, any two snapshots compare.
const ICICLE_ROW = 26, ICICLE_ROWS = 9;

function icicle(view, data, take) {
  const nodes = data.name.map((name, i) => ({ name, type: data.types[data.type[i]], parent: data.parent[i], bytes: data.bytes[i], drawn: data.drawn[i] || data.bytes[i] }));
  const box = view.querySelector(".icicle"), trail = view.querySelector(".trail"), search = view.querySelector("input"), narrow = view.querySelector(".drawn-narrower");
  const members = nodes.map(() => []);
  nodes.forEach((node, number) => node.parent !== null && members[node.parent].push(number));
  let top = 0;

  const growth = (number) => nodes[number].bytes[take("shown")] - nodes[number].bytes[take("base")];
  const size = (number) => nodes[number].bytes[take("shown")];
  const drawn = (number) => nodes[number].drawn[take("shown")];

  function shade(number, most) {
    const share = growth(number) / most;
    return share < -0.02 ? "shrank" : share <= 0.02 ? "level" : share < 0.35 ? "grew" : "grew-much";
  }

  function isFound(number) {
    const sought = search.value.trim().toLowerCase();
    return sought !== "" && (nodes[number].name + " " + nodes[number].type).toLowerCase().includes(sought);
  }

  function draw() {
    const most = Math.max(1, ...nodes.map((node, number) => Math.abs(growth(number))));
    const whole = drawn(top) || 1, boxes = [];
    let deepest = 0;
    const add = (number, left, row) => {
      const width = 100 * drawn(number) / whole, isNarrow = drawn(number) < 0.99 * size(number), button = document.createElement("button");
      const told = `${nodes[number].name}, ${formatBytes(size(number))}, ${formatBytes(growth(number), true)}${isNarrow ? ", drawn narrower" : ""}`;
      button.type = "button";
      button.className = `box ${shade(number, most)}${isFound(number) ? " found" : ""}${isNarrow ? " narrow" : ""}`;
      button.title = nodes[number].type ? `${told} (${nodes[number].type})` : told;
      button.setAttribute("aria-label", told);
      button.textContent = width > 4 ? nodes[number].name : "";
      Object.assign(button.style, { left: left + "%", width: width + "%", top: row * ICICLE_ROW + "px" });
      button.addEventListener("click", () => go(number === top && nodes[top].parent !== null ? nodes[top].parent : number));
      boxes.push(button);
      deepest = Math.max(deepest, row);
      if (row + 1 === ICICLE_ROWS) return;
      let from = left;
      for (const member of [...members[number]].sort((a, b) => drawn(b) - drawn(a))) {
        const part = 100 * drawn(member) / whole;
        if (part >= 0.25) add(member, from, row + 1);
        from += part;
      }
    };
    add(top, 0, 0);
    box.replaceChildren(...boxes);
    box.style.height = (deepest + 1) * ICICLE_ROW + "px";
    const hits = nodes.filter((node, number) => isFound(number)).length;
    const found = search.value.trim() ? ` \u00b7 ${hits} found` : "";
    narrow.hidden = !box.querySelector(".narrow");
    trail.textContent = `${way(top)}: ${formatBytes(size(top))}, ${formatBytes(growth(top), true)}${found}`;
  }

  function way(number) {
    const names = [];
    for (let at = number; at !== null; at = nodes[at].parent) names.unshift(nodes[at].name);
    return names.join(" \u203a ");
  }

  function go(number) {
    top = number;
    draw();
    box.firstElementChild.focus({ preventScroll: true });
  }

  search.addEventListener("input", draw);
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();  // or the box that gets the focus would be pressed by the same key
    const found = nodes.map((node, number) => number).filter(isFound).sort((a, b) => size(b) - size(a));
    if (found.length) go(found[0]);
  });
  return { draw, go, of: (holder) => data.holder.indexOf(holder) };
}
