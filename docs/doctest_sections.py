"""Docstrings made fit for Markdown: sections for examples, and no HTML.

Without a section, Markdown reads `>>>` as three quotations, one in the other; and the token <s> as
HTML that strikes out the rest of the page. `mkdocs.yml` names this extension.
"""

import re
from typing import Any

from griffe import Extension, Object

_FIRST = re.compile(r"^>>> ", re.MULTILINE)
_EXAMPLE = re.compile(r"^Example:\n((?:    .+\n?)+)", re.MULTILINE)  # of what needs files
_TAG = re.compile(r"(`[^`]*`)|<(?=[a-zA-Z/!])")  # code stays as it is


def with_examples(docstring: str) -> str:
    """Put all that follows the first prompt under the heading `Examples:`, and escape HTML before.

    The lines of a section `Example:` get a prompt each.

    Args:
        docstring: without the indentation of its code.

    >>> with_examples("Add <s>.\\n\\n>>> f(1)\\n2")
    'Add &lt;s>.\\n\\nExamples:\\n    >>> f(1)\\n    2'
    >>> with_examples("Read it.\\n\\nExample:\\n    load(path)")
    'Read it.\\n\\nExamples:\\n    >>> load(path)'
    """
    found = _FIRST.search(docstring)
    start = len(docstring) if found is None else found.start()
    before = _TAG.sub(lambda tag: tag[1] or "&lt;", docstring[:start])
    before = _EXAMPLE.sub(
        lambda section: "Examples:\n" + re.sub("(?m)^    ", "    >>> ", section[1]), before
    )
    if found is None:
        return before
    examples = docstring[start:]
    return f"{before}Examples:\n" + re.sub(r"^(?=.)", "    ", examples, flags=re.MULTILINE)


class DoctestSections(Extension):
    """Gives each docstring its section of examples, before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of one object.

        Args:
            obj: a module, class, function or attribute that was read.
        """
        if obj.docstring is not None:
            obj.docstring.value = with_examples(obj.docstring.value)
