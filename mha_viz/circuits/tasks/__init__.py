"""Tasks from templates and pairs, and circuits of heads tested on them."""
