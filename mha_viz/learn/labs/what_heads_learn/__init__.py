"""Lab 12: heads that find the word that belongs to another one."""
