// Chromium under a POSIX locale says "en-US@posix", which Intl refuses; and uPlot asks Intl while it loads.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}
