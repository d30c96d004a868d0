"""Continuation of a text token by token, with the weights that each step itself used."""

import math
from collections.abc import Iterator
from random import SystemRandom

from mha_viz.core.arguments import check_whole_number
from mha_viz.core.attention.checks import Number
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.engine.cached_run import CachedRun
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.recording import record_of
from mha_viz.engine.run import OnLayer
from mha_viz.errors import ArgumentError
from mha_viz.prediction.generation import (
    GeneratedToken,
    describe_token,
    draw,
    encode_prompt,
    end_token_ids,
    extend_prompt,
    sampling_probabilities,
)
from mha_viz.text.cleaning import visible
from mha_viz.text.encoding import label_of
from mha_viz.text.tokens import Encoded

MAX_SEED = 2**32 - 1


class Writing:
    """A causal model's continuation of a text: a step forward, a step back, another branch.

    Each step is one pass over the newest token with a key-value cache, and `record` is put together
    of the weights that the steps used: up to rounding, those of one pass over the whole text.

    What is drawn at a position depends on the seed and the position alone: after a step back, a
    step forward writes the same token again. Not to be shared between threads.

    Args:
        model: a causal language model.
        text: what comes before.
        temperature: 0 takes the likeliest token each time; above 0 tokens are drawn from
            softmax(logits / temperature).
        top_k: draw among so many likeliest tokens; None: among all.
        seed: 0..4294967295; None: a random one, to be read from `seed`.
        gates: factors (layer, head) on each head's z, in every step.
        intervention: what else happens to some heads, as in `generate`.
        on_layer: called after each layer of the pass over the text; raise in it to abandon. The
            methods below take one, too: an abandoned step is completed by the next call.

    Attributes:
        seed: the one that is drawn with.
        n_prompt: how many of `tokens` were typed.

    Raises:
        ArgumentError: numbers out of range, no room for a token; no causal model.
        AttentionUnavailableError: no prediction head, no cache that tokens can be taken back from,
            or heads that cannot be changed.
        TextError: text that cannot be used.

    >>> import mha_viz as mv
    >>> writing = mv.Writing(mv.load("tiny-gpt2"), "Once upon a")
    >>> writing.step()
    GeneratedToken('time', probability=0.305)
    >>> writing.text, writing.record.pattern.shape[-2:]
    ('Once upon a time', torch.Size([5, 5]))
    """

    def __init__(
        self,
        model: AttentionModel,
        text: str,
        *,
        temperature: Number = 0.0,
        top_k: int | None = None,
        seed: int | None = None,
        gates: Gates | None = None,
        intervention: Intervention | None = None,
        on_layer: OnLayer | None = None,
    ) -> None:
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ArgumentError(
                f"temperature must be a finite number of 0 or more, got {temperature}."
            )
        if top_k is not None:
            check_whole_number("top_k", top_k, 1, model.d_vocab)
        seed = SystemRandom().randrange(MAX_SEED) if seed is None else seed
        check_whole_number("seed", seed, 0, MAX_SEED)
        self.model, self.temperature, self.top_k, self.seed = model, temperature, top_k, seed
        self._prompt = encode_prompt(model, text)
        self.n_prompt = len(self._prompt.input_ids)
        self._edits = head_edits(model, gates, intervention)
        self._run = CachedRun(model, self._edits)
        self._written: list[GeneratedToken] = []
        self._record: AttentionRecord | None = None
        self._catch_up(on_layer)

    # -- what there is -----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many tokens the model has written."""
        return len(self._written)

    @property
    def written(self) -> tuple[GeneratedToken, ...]:
        """The tokens that the model has written."""
        return tuple(self._written)

    @property
    def text(self) -> str:
        """The typed text and what was written, as one text."""
        return self._encoded().text

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens, the typed ones first."""
        return self._encoded().tokens

    @property
    def upcoming(self) -> GeneratedToken:
        """The token that a step would write next, or the end token that would end the text."""
        self._catch_up()
        return self._token(self._drawn())

    @property
    def finished(self) -> bool:
        """True where no step follows: the model ends the text, or it takes no more tokens."""
        self._catch_up()
        return self.is_full or self._drawn() in end_token_ids(self.model)

    @property
    def is_full(self) -> bool:
        """True where the text has as many tokens as the model takes."""
        return self._n_tokens == self.model.n_stored

    @property
    def record(self) -> AttentionRecord:
        """The attention of all tokens as the steps computed it; everything is kept."""
        self._catch_up()
        if self._record is None:
            texts = (self._encoded(), None)
            self._record = record_of(self.model, "self", self._run.joined(), 0, texts, self._edits)
        return self._record

    # -- on and back -------------------------------------------------------------------------------

    def step(self, on_layer: OnLayer | None = None) -> GeneratedToken | None:
        """Write one more token and return it; None, and nothing, where the text is `finished`.

        An example is in the class. `on_layer` is called as in `AttentionModel.trace`.
        """
        self._catch_up(on_layer)
        return None if self.finished else self._write(self._drawn(), on_layer)

    def steps(self, n: int = 20) -> Iterator[GeneratedToken]:
        """Yield up to n more tokens, each written when it is asked for; fewer where `finished`.

        Raises ArgumentError: n is below 1 or above what the model takes.

        >>> import mha_viz as mv
        >>> writing = mv.Writing(mv.load("tiny-gpt2"), "Once upon a")
        >>> len(list(writing.steps(3))), len(writing)
        (3, 3)
        >>> writing.back(2)
        >>> writing.text
        'Once upon a time'
        """
        check_whole_number("n", n, 1, self.model.n_stored)
        for _ in range(n):
            token = self.step()
            if token is None:
                return
            yield token

    def back(self, n: int = 1, on_layer: OnLayer | None = None) -> None:
        """Take back the n tokens that were written last, and run the one before them again.

        `on_layer` is called as in `AttentionModel.trace`. Raises ArgumentError: nothing is written,
        or less than that.
        """
        if not self._written:
            raise ArgumentError("Nothing is written yet that could be taken back: step first.")
        check_whole_number("n", n, 1, len(self))
        self._keep(self._n_tokens - n)
        self._catch_up(on_layer)

    def branch(self, at: int, token_id: int, on_layer: OnLayer | None = None) -> GeneratedToken:
        """Write another token at a place, and return it; what stood there and behind is taken back.

        `at` is an index in `tokens`, of a written one, or len(tokens) to choose the next one;
        `token_id` is the number of a runner-up or of any other token of the vocabulary; `on_layer`
        is called as in `AttentionModel.trace`. Raises ArgumentError: no such place or token; a
        token that ends texts.

        >>> import mha_viz as mv
        >>> writing = mv.Writing(mv.load("tiny-gpt2"), "Once upon a")
        >>> other = writing.step().id + 1
        >>> writing.branch(writing.n_prompt, other).id == writing.tokens[-1].id == other
        True
        """
        last = min(self._n_tokens, self.model.n_stored - 1)
        check_whole_number("at", at, self.n_prompt, last)
        check_whole_number("token_id", token_id, 0, self.model.d_vocab - 1)
        if token_id in end_token_ids(self.model):
            raise ArgumentError(
                f"{label_of(self.model.tokenizer, token_id)} ends a text, so that nothing could "
                "follow it: choose another token."
            )
        if at < self._n_tokens:
            self._keep(at)
        self._catch_up(on_layer)
        return self._write(token_id, on_layer, branched=True)

    def __repr__(self) -> str:
        return f"Writing({visible(self.text)!r}, {len(self)} new tokens)"

    @property
    def _n_tokens(self) -> int:
        return self.n_prompt + len(self._written)

    def _ids(self) -> list[int]:
        return [token.id for token in self._written]

    def _encoded(self) -> Encoded:
        ids = self._ids()
        return extend_prompt(self.model, self._prompt, ids) if ids else self._prompt

    def _catch_up(self, on_layer: OnLayer | None = None) -> None:
        """Run the tokens that have not been run, so that it is known what follows the last one."""
        pending = [*self._prompt.input_ids, *self._ids()][len(self._run) :]
        if not pending:
            return
        log_probs = self._run.run(pending, on_layer).float().log_softmax(-1).cpu()
        if log_probs.isnan().any():
            raise ArgumentError(
                "The model's numbers overflow with its heads changed so: take smaller factors."
            )
        self._log_probs, self._record = log_probs, None
        self._chances = sampling_probabilities(log_probs, self.temperature, self.top_k)

    def _keep(self, n: int) -> None:
        """Keep the first n tokens; the last of them is run again, for what follows it."""
        del self._written[n - self.n_prompt :]
        self._run.cut(n - 1)

    def _write(
        self, number: int, on_layer: OnLayer | None, branched: bool = False
    ) -> GeneratedToken:
        token = self._token(number, branched)
        self._written.append(token)
        self._catch_up(on_layer)
        return token

    def _drawn(self) -> int:
        return draw(self._chances, self.seed, self._n_tokens)

    def _token(self, number: int, branched: bool = False) -> GeneratedToken:
        tokenizer, position = self.model.tokenizer, self._n_tokens
        return describe_token(tokenizer, number, self._log_probs, self._chances, position, branched)
