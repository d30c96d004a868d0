"""Everything about all heads of a model: the induction probe, parameters, the report."""
