// What the scripts of the rest of the page draw.
Object.assign(DATA, JSON.parse(document.getElementById("more").textContent));
