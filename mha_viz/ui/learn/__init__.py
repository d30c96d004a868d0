"""The labs, a module each: statement, formula, picture, control, a question before the answer.

Each module has `draw(choices)`; `contents` names them all. Numbers come from `mha_viz.labs`.
"""
