"""A plugin of pytest: the names of tests that passed only when they were run again."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name each browser journey that failed and then passed when run again, and what it showed."""
    stats = terminalreporter.stats
    passed = {report.nodeid for report in stats.get("passed", ())}
    for report in stats.get("rerun", ()):
        if report.nodeid in passed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = (crash.message if crash else report.longreprtext).strip() or "no message"
            terminalreporter.write_line(f"RUN AGAIN {report.nodeid}: {reason.splitlines()[0]}")
