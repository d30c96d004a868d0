"""How heads work together across layers: what one writes, another reads."""
