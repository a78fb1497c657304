// The heap: compares any two snapshots of a process and sorts by size or by growth. Without it, last against first.
ROOT.querySelectorAll(".heap").forEach((view, number) => {
  const data = DATA.heap[number], bytes = [];
  data.holder.forEach((holder, node) => { if (holder !== null) bytes[holder] = data.bytes[node]; });
  const choice = (name) => Number(view.querySelector(`[data-take="${name}"]`).value);

  function update() {
    const [shown, base] = [choice("shown"), choice("base")];
    const byGrowth = view.querySelector("[data-sort]").value === "growth";
    const size = (item) => bytes[item.dataset.holder][shown];
    const growth = (item) => size(item) - bytes[item.dataset.holder][base];
    const key = byGrowth ? growth : size;
    view.querySelectorAll("[data-holder]").forEach((item) => {
      item.querySelector(".size").textContent = formatBytes(size(item));
      const grown = item.querySelector(".grown");
      grown.textContent = formatBytes(growth(item), true);
    });
    view.querySelectorAll(".tree, .tree ul").forEach((list) => {
      list.append(...[...list.children].sort((a, b) => key(b) - key(a) || a.dataset.holder - b.dataset.holder));
    });
  }

  const boxes = icicle(view, data, choice);
  view.querySelectorAll("select").forEach((select) => select.addEventListener("change", () => { update(); boxes.draw(); }));
  ROOT.querySelectorAll(`a[href^="#holder-${number}-"]`).forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    boxes.go(boxes.of(Number(link.hash.split("-")[2])));
    view.scrollIntoView();
  }));
  view.querySelector(".boxes").hidden = false;
  view.querySelector(".controls").hidden = false;
  whenNear([view], () => boxes.draw());
});
