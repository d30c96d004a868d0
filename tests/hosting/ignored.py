"""The files that a .dockerignore lets through."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied_files() -> list[Path]:
    """Return the files that an engine sends to the Dockerfile's `COPY . .`, within the clone."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"  # so that only what is named is looked through
    named = [ROOT / rule[1:] for rule in rules if rule.startswith("!")]
    out = [re.compile(_expression(rule)) for rule in rules[1:] if not rule.startswith("!")]
    assert rules[-len(out) :] == [rule for rule in rules[1:] if not rule.startswith("!")]

    def is_let_through(path: Path) -> bool:
        above = [one.as_posix() for one in (path, *path.parents)]
        return not any(rule.fullmatch(one) for rule in out for one in above)

    files = [f for top in named for f in ([top] if top.is_file() else top.rglob("*"))]
    within = [path.relative_to(ROOT) for path in files if path.is_file()]
    return sorted(filter(is_let_through, within))


def _expression(pattern: str) -> str:
    """Return a pattern of .dockerignore as a regular expression."""
    parts = {"**/": r"(?:.*/)?", "*": r"[^/]*"}
    pieces = re.findall(r"\*\*/|\*|\[[^\]]*\]|.", pattern)
    return "".join(parts.get(p) or (p if len(p) > 1 else re.escape(p)) for p in pieces)
