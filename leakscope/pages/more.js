// What the scripts of the rest of the page draw.
{
  const more = JSON.parse(document.getElementById("more").textContent);
  Object.assign(DATA, more, { plots: { ...DATA.plots, ...more.plots } });
  drawPlots(0);
}
