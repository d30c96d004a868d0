"""The lab on translation and pictures: its networks, its language, its digits, what it states."""

import pytest
import torch
from safetensors import safe_open
from torch import nn

from mha_viz.core import stored_runs
from mha_viz.core.attention.multi_head import MultiHeadAttention
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.translation_and_pictures import numbers
from mha_viz.learn.networks import digits, translation
from mha_viz.learn.training import Block, with_weights
from tests.making.comparing import close

WIDTH, HEADS = 15, 5


@pytest.fixture(scope="module")
def translators():
    return [stored_runs.read(run) for run in numbers.STORED if run.kind is translation.Translating]


@pytest.fixture(scope="module")
def reading():
    (run,) = (run for run in numbers.STORED if run.kind is digits.Reading)
    return stored_runs.read(run)


def as_ours(layer: nn.Module) -> Block:
    """Our block with the weights of torch's layer."""
    crossed = isinstance(layer, nn.TransformerDecoderLayer)
    block = Block(WIDTH, HEADS, crossed=crossed).double()
    block.attention = MultiHeadAttention.from_torch(layer.self_attn)
    if crossed:
        block.cross = MultiHeadAttention.from_torch(layer.multihead_attn)
    block.mlp[0], block.mlp[2] = layer.linear1, layer.linear2
    return block


def torch_layer(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    look = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    layer = kind(WIDTH, HEADS, 2 * WIDTH, **look).double()
    for name, part in layer.named_parameters():
        if "norm" not in name:
            nn.init.normal_(part, std=0.5)
    return layer


def test_a_block_is_torchs_decoder_layer_and_its_pattern_is_the_cross_attention() -> None:
    layer = torch_layer(nn.TransformerDecoderLayer)
    tokens, source = (torch.randn(3, n, WIDTH, dtype=torch.float64) for n in (5, 7))
    seen = torch.rand(3, 7) < 0.7
    seen[:, 0] = True
    looked = {}
    layer.multihead_attn.register_forward_pre_hook(lambda _, given: looked.update(query=given[0]))
    ours, pattern = as_ours(layer)(tokens, source, visible=seen[:, None, None], causal=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    padding = torch.zeros(3, 7, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    theirs = layer(tokens, source, tgt_mask=mask, memory_key_padding_mask=padding)
    close(ours, theirs, atol=1e-12, rtol=1e-12)
    _, weights = layer.multihead_attn(
        looked["query"], source, source, key_padding_mask=padding, average_attn_weights=False
    )
    close(pattern, weights, atol=1e-12, rtol=1e-12)


def test_a_block_is_torchs_encoder_layer() -> None:
    layer = torch_layer(nn.TransformerEncoderLayer)
    tokens, seen = torch.randn(3, 7, WIDTH, dtype=torch.float64), torch.rand(3, 7) < 0.7
    seen[:, 0] = True
    ours, pattern = as_ours(layer)(tokens, visible=seen[:, None, None])
    close(ours, layer(tokens, src_key_padding_mask=~seen), atol=1e-12, rtol=1e-12)
    assert not pattern.transpose(1, 3)[~seen].any()


def test_the_translation_follows_the_rules() -> None:
    pair = translation.translate_by_rules("a clever queen fears the old horse".split())
    assert pair is not None
    assert pair.target == ("timi", "la", "vana", "veka", "una", "zora", "dova")
    assert pair.positions == (3, 4, 6, 5, 0, 2, 1)
    for other in ("", "cat", "the cat sees", "sees the cat a dog", "the cat sees a dog the"):
        assert translation.translate_by_rules(other.split()) is None
    assert len(set(translation.TARGET[1:])) == len(translation.TARGET) - 1


def test_held_out_sentences_share_no_triple_with_those_of_training() -> None:
    def triples(held_out: bool) -> set[tuple[str, ...]]:
        batch = translation.draw_batch(211, torch.Generator().manual_seed(3), held_out=held_out)
        lines = [[translation.SOURCE[i] for i in ids if i] for ids in batch.source.tolist()]
        kinds = ("noun", "verb")
        return {tuple(w for w in line if translation.KINDS[w] in kinds) for line in lines}

    known, unseen = triples(False), triples(True)
    assert min(len(known), len(unseen)) > 50 and not known & unseen


def test_the_shipped_translators_translate_sentences_that_nobody_chose(translators) -> None:
    unseen = translation.draw_batch(307, torch.Generator().manual_seed(11), held_out=True)
    for found in translators:
        network = with_weights(translation.Translator(), found.weights)
        written, _ = translation.translate_ids(network, unseen.source)
        assert (written == unseen.target).all(-1).double().mean() > 0.98 < found.right
        close(translation.alignment_shares(network, unseen), found.aligned, atol=0.06)
        assert found.untrained.max() < 0.25 < 0.5 < found.aligned.min() + 0.05
        assert found.hidden["none"] > 0.99 and found.hidden["random"] > 0.8
        assert found.hidden["attended"] < found.hidden["translated"] + 0.02 < 0.55


def test_the_alignment_counted_sentence_by_sentence_is_the_same(translators) -> None:
    batch = translation.draw_batch(29, torch.Generator().manual_seed(2), held_out=True)
    counted, total = torch.zeros(5), 0
    for ids in batch.source.tolist():
        words = [translation.SOURCE[i] for i in ids if i]
        made = numbers.translate(translators[0].weights, words)
        pair = translation.translate_by_rules(words)
        assert pair is not None and made.labels == pair.target
        assert made.key_labels == tuple(words) and made.part == "cross"
        pattern = made.pattern[0]
        weights = torch.cat([pattern, pattern.mean(0, keepdim=True)])
        counted += (weights.argmax(-1) == torch.tensor(pair.positions)).sum(-1)
        total += len(words)
    close(
        translation.alignment_shares(
            with_weights(translation.Translator(), translators[0].weights), batch
        ),
        counted / total,
    )


def test_the_page_states_what_the_shipped_translators_do(translators) -> None:
    first, fourth = translators
    asked = read_texts(numbers.__package__).tables["where"]
    assert asked["options"][asked["right"]] == "About four of five"
    assert 0.72 < first.aligned[-1] < 0.88 and first.chance == pytest.approx(1 / 6.3, abs=0.01)
    assert fourth.aligned.max() > 0.97

    batch = translation.draw_batch(401, torch.Generator().manual_seed(5), held_out=True)
    before, verb = translation.shift_right(batch.target), batch.positions[:, 0]
    hidden = torch.zeros(*batch.target.shape, translation.MAX_WORDS, dtype=torch.bool)
    hidden[torch.arange(401), 0, verb] = True
    for found, share, still in ((first, 0.35, 0.89), (fourth, 1.0, 0.2)):
        network = with_weights(translation.Translator(), found.weights)
        with torch.no_grad():
            _, cross = network(batch.source, before)
            logits, _ = network(batch.source, before, hidden)
        looked = (cross.mean(1)[:, 0].argmax(-1) == verb).float().mean()
        right = (logits[:, 0].argmax(-1) == batch.target[:, 0]).float().mean()
        assert (float(looked), float(right)) == pytest.approx((share, still), abs=0.06)


def test_the_digits_are_all_there_with_source_and_licence() -> None:
    with safe_open(digits.FILE, "pt") as file:
        assert file.metadata()["licence"] == "CC BY 4.0" and "Alpaydin" in file.metadata()["source"]
    known, tested = digits.read_digits(False), digits.read_digits(True)
    assert (len(known.labels), len(tested.labels)) == (1_437, 360)
    assert tested.labels.bincount().min() > 20 and known.pictures.max() == 1
    rows = {tuple(row) for row in known.pictures.flatten(1).tolist()}
    assert not rows & {tuple(row) for row in tested.pictures.flatten(1).tolist()}


def test_a_hidden_patch_has_no_say(reading) -> None:
    network = with_weights(digits.VisionTransformer(), reading.weights.double())
    pictures = digits.read_digits(True).pictures[:7]
    hidden = torch.zeros(7, digits.N_PATCHES, dtype=torch.bool)
    hidden[:, 6] = True  # rows 2 and 3, columns 4 and 5
    other = pictures.clone()
    other[:, 2:4, 4:6] = torch.rand(7, 2, 2, dtype=torch.float64)
    logits, patterns = network(pictures, hidden)
    close(network(other, hidden)[0], logits, atol=1e-12)
    assert (network(other)[0] - network(pictures)[0]).abs().max() > 0.01
    for pattern in patterns:
        close(pattern.sum(-1), 1.0)
        assert not pattern[..., 1 + 6].any()


def test_the_shipped_transformer_reads_as_many_digits_as_stated(reading) -> None:
    tested = digits.read_digits(True)
    made = [numbers.read(reading.weights, picture) for picture in tested.pictures[:53]]
    right = [int(one.probabilities[0].argmax()) for one in made]
    network = with_weights(digits.VisionTransformer(), reading.weights.double())
    with torch.no_grad():
        logits, patterns = network(tested.pictures)
    assert right == logits[:53].argmax(-1).tolist()
    share = float((logits.argmax(-1) == tested.labels).double().mean())
    assert share == pytest.approx(reading.right, abs=0.004) and share > reading.linear > 0.95
    close(made[5].record.pattern, torch.stack([layer[5] for layer in patterns]), atol=1e-4)
    least = torch.tensor(reading.hidden["least"])
    for name in ("attention", "rollout", "ink"):
        assert (torch.tensor(reading.hidden[name])[2:] < least[2:]).all(), name
