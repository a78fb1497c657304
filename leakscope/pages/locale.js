// uPlot asks Intl while it loads, for labels that we write ourselves. To load Intl takes longer than all else that uPlot
// does then; and Chromium under a POSIX locale says "en-US@posix", which Intl refuses.
const Intl = {
  NumberFormat: class { format(number) { return String(number); } },
  DateTimeFormat: class { resolvedOptions() { return {}; } },
};
