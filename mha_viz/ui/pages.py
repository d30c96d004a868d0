"""The pages beside Learn, in the order of the menu: each is a folder here, with `page.page`."""

FIRST = "heads"
PAGES = (FIRST, "compare", "why", "many_texts")
TITLES = {key: key.capitalize().replace("_", " ") for key in PAGES}
# Names of pages in older addresses, and the pages that show the same today.
FORMER = {"explore": FIRST, "intervene": FIRST, "circuits": "why", "corpus": "many_texts"}
# The former page Corpus had everything below each other. By what a link of it chose: what shows
# that today, the most telling choice first.
_FORMER_CORPUS = (
    ({"corpus_b", "corpus_model_b", "compared"}, "tab=change"),
    ({"from_word", "to_word", "from_upos", "to_upos", "along"}, "tab=find&find=pairs"),
    ({"min_weight", "previous", "any_head"}, "tab=find&find=pairs"),
    ({"over"}, "tab=change&change=training"),
    ({"gold", "any_length"}, "tab=find"),
    ({"question"}, "tab=grammar"),
    ({"kind", "arc", "metric"}, "picture=map"),
)


def redirection(name: str, query: str) -> str | None:
    """Return the path and query that an older address leads to; None for a page of today.

    That of the first page is "".

    >>> redirection("corpus", "from_word=because"), redirection("explore", ""), redirection("x", "")
    ('many_texts?from_word=because&tab=find&find=pairs', '', None)
    """
    if name not in (FIRST, *FORMER):
        return None
    page = FORMER.get(name, name)
    chosen = {part.partition("=")[0] for part in query.split("&")}
    if name == "corpus" and "tab" not in chosen:
        shown = [where for names, where in _FORMER_CORPUS if names & chosen][:1]
        query = "&".join(filter(None, (query, *shown)))
    return ("" if page == FIRST else page) + (f"?{query}" if query else "")
