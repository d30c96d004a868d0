"""Small networks that labs train while you wait."""
