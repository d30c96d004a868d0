"""What the wheel holds beside the package; hatchling runs this when it builds one.

An editable install takes the source tree as it is, where these files lie in their own places, and
must get no copies of them.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Puts what pyproject.toml lists under this hook into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update(self.config["files"])
