// A page of a run that goes on: asks where it came from whether there is a newer one, and then is that.
(function () {
  const notice = document.querySelector(".renewal"), said = notice.querySelector(".said"), hold = notice.querySelector("button");
  const EVERY_MS = 2000, folds = () => [...document.querySelectorAll("details")];
  let held = false;

  // What was open stays open; the browser itself keeps the place.
  const open = JSON.parse(sessionStorage.getItem("open") || "[]");
  for (const [number, fold] of folds().entries()) if (open.includes(number)) fold.open = true;

  function renew() {
    sessionStorage.setItem("open", JSON.stringify(folds().flatMap((fold, number) => (fold.open ? [number] : []))));
    location.reload();
  }

  hold.addEventListener("click", () => {
    held = !held;
    hold.setAttribute("aria-pressed", held);
    said.textContent = held ? " This page stays as it is." : "";
  });

  async function ask() {
    if (!held && !document.hidden) {
      try {
        const state = await (await fetch("state", { cache: "no-store" })).json();
        if (state.version !== Number(notice.dataset.version)) return renew();
        said.textContent = "";
      } catch (error) {
        said.textContent = " leakscope view has ended: the page stays as it is.";
      }
    }
    setTimeout(ask, EVERY_MS);
  }
  setTimeout(ask, EVERY_MS);
})();
