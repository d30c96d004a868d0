"""The labs, a module each: statement, formula, picture, control, a question before the answer.

Each module has `draw(choices)`; `contents` names them all. Numbers come from `mha_viz.labs`. A part
of a lab picks, computes and draws: `frame.step` and `frame.predict` say what it is about, `choices`
has a control for every kind of choice, and `charts` draws matrices, weights and lines. What takes
seconds runs in `long_work`, with progress and Stop.
"""
