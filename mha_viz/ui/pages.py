"""The pages beside Learn, in the order of the menu: each is a folder here, with `page.page`."""

FIRST = "explore"
PAGES = (FIRST, "compare", "circuits", "corpus", "intervene")
TITLES = {key: key.capitalize() for key in PAGES} | {"explore": "Heads"}
