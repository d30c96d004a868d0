"""Three small models that ship with mha_viz, and the recipes that made them."""
