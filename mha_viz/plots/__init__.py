"""Arrays in, plotly figures and byte payloads out. Knows no model and no screen."""
