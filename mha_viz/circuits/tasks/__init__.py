"""Tasks from templates, and circuits of heads tested on them."""
