"""Figures: arrays in, Plotly figures and files out.

Most functions take the same few arguments. `title` names what is drawn and `unit` what it is
counted in; they, labels and names are any plain text and never read as markup. `selected` is the
(layer, head) of the chosen head, `side` the largest side of a square of cells in pixels, `dark`
chooses the colours for a dark page. Numbers that are not finite are not defined: they are left out
and counted, or hatched. Arrays of wrong shapes raise ShapeError; heads that do not exist, nothing
to draw and too much of it raise ArgumentError.
"""
