"""Two small models that ship with mha_viz, and the recipe that made them."""
