"""The tags of an HTML page, as a browser reads them."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """The tags of a page with their attributes and its comments, in their order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_comment(self, data: str) -> None:
        self.seen.append(("!", {data: None}))

    def handle_data(self, data: str) -> None:
        self.text += data
