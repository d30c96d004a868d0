"""Lab 7: which patterns a head of width d_k can make."""
