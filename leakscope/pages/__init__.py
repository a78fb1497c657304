"""What every HTML page of ours is made of: templates, style, scripts, uPlot, and the geometry of static charts."""
