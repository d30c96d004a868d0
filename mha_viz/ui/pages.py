"""The pages beside Learn, in the order of the menu: each is a folder here, with `page.page`."""

FIRST = "heads"
PAGES = (FIRST, "compare", "circuits", "corpus")
TITLES = {key: key.capitalize() for key in PAGES}
# Names of pages in older addresses, and the pages that show the same today.
FORMER = {"explore": FIRST, "intervene": FIRST}
