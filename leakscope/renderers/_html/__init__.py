"""What the HTML report is made of: templates, style, scripts, the bundled uPlot, and the geometry of static charts."""
