"""The models that the menu, the command and the guide suggest."""

from pathlib import Path

from mha_viz.checkpoints.catalog import SUGGESTED, suggested
from mha_viz.checkpoints.hub import MAX_DOWNLOAD_BYTES
from mha_viz.checkpoints.hub_cache import is_hub_id
from mha_viz.core.amounts import of_bytes

GUIDE = Path(__file__).parents[2] / "docs" / "models.md"


def test_each_is_named_once_and_small_enough_to_be_fetched():
    assert len({one.name for one in SUGGESTED}) == len(SUGGESTED)
    for one in SUGGESTED:
        assert is_hub_id(one.name) and "/" in one.name
        assert 10**7 < one.n_bytes < MAX_DOWNLOAD_BYTES


def test_what_is_here_is_not_suggested_by_its_older_name_either():
    names = [one.name for one in suggested({"gpt2", "FacebookAI/roberta-base", "mine/gpt2"})]
    assert "openai-community/gpt2" not in names and "FacebookAI/roberta-base" not in names
    assert len(names) == len(SUGGESTED) - 2
    assert len(suggested({"mine/gpt2", "tiny-bert"})) == len(SUGGESTED)


def test_the_guide_has_the_same_table():
    rows = [line for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("| `")]
    for one in SUGGESTED:
        assert f"| `{one.name}` | {one.about} | {of_bytes(one.n_bytes)} |" in rows
