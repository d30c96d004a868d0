"""Sections for the examples of docstrings, which stand there as bare doctests.

Without a section, Markdown reads `>>>` as three quotations, one in the other. `mkdocs.yml` names
this extension.
"""

import re
from typing import Any

from griffe import Extension, Object

_FIRST = re.compile(r"^>>> ", re.MULTILINE)


def with_examples(docstring: str) -> str:
    """Put all that follows the first prompt under the heading `Examples:`.

    Args:
        docstring: without the indentation of its code.

    >>> with_examples("Add one.\\n\\n>>> f(1)\\n2")
    'Add one.\\n\\nExamples:\\n    >>> f(1)\\n    2'
    """
    found = _FIRST.search(docstring)
    if found is None:
        return docstring
    before, examples = docstring[: found.start()], docstring[found.start() :]
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
