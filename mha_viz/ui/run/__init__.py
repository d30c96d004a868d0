"""One run of a text as pages use it: models, memory, scenes, studies, and the work behind them."""
