"""The Learn section: labs with their numbers and pages, and what frames them.

A lab is a folder in `labs`: `numbers` computes, `page` has `draw(choices)`; `frame.contents` names
them all. A part of a lab picks, computes and draws: `TEXTS.step` and `TEXTS.predict` say what it is
about, `choices` has a control for every kind of choice, and `charts` draws matrices, weights and
lines. What takes seconds is a `LabRun` of `long_work`, with progress and Stop.
"""
