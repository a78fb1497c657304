"use strict";
// In a page all of the document is ours; in a notebook ROOT is one box of it.
const ROOT = document.documentElement, DATA = JSON.parse(document.getElementById("data").textContent);
