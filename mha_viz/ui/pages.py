"""The pages beside Learn, in the order of the menu: each is a folder here, with `page.page`."""

FIRST = "heads"
PAGES = (FIRST, "compare", "circuits", "corpus")
TITLES = {key: key.capitalize() for key in PAGES}
FORMER_FIRST = ("explore", "intervene")  # names of the first page in older addresses
