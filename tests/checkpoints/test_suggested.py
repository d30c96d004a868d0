"""The models that the menu, the command and the guide suggest."""

from mha_viz.checkpoints.catalog import SUGGESTED, suggested


def test_what_is_here_is_not_suggested_by_its_older_name_either():
    names = [one.name for one in suggested({"gpt2", "FacebookAI/roberta-base", "mine/gpt2"})]
    assert "openai-community/gpt2" not in names and "FacebookAI/roberta-base" not in names
    assert len(names) == len(SUGGESTED) - 2
    assert len(suggested({"mine/gpt2", "tiny-bert"})) == len(SUGGESTED)
