"""The labs, a folder each: the numbers, and the page that draws them."""
