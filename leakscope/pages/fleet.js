// The heat maps say which rank the pointer is on, where it runs and how fast it grows.
(() => {
  const {heat: told, clock} = JSON.parse(document.getElementById("more").textContent);
  for (const figure of document.querySelectorAll("[data-heat]")) {
    const map = told[Number(figure.dataset.heat)], picture = figure.querySelector("svg");
    const said = figure.querySelector(".said"), box = picture.viewBox.baseVal;
    picture.addEventListener("pointermove", (event) => {
      const place = picture.getBoundingClientRect();
      const column = Math.floor((event.clientX - place.left) / place.width * box.width);
      const line = Math.floor((event.clientY - place.top) / place.height * box.height);
      const band = Math.floor(line / (map.deep + 1)), row = line % (map.deep + 1);
      const node = band * map.across + column, rank = node * map.deep + row;
      if (column >= map.across || row >= map.deep || rank >= map.rates.length) { said.textContent = ""; return; }
      const rate = map.rates[rank];
      const grows = rate === null ? "not judged" : formatBytes(rate * 1048576, true) + " " + clock;
      said.textContent = "Rank " + rank + " on " + (map.nodes[node] || "an unknown node") + ": " + grows;
    });
    picture.addEventListener("pointerleave", () => { said.textContent = ""; });
  }
})();
