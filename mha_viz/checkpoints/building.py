"""Config and tokenizer of a checkpoint, built by transformers from untrusted files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils.logging import (
    disable_progress_bar,
    enable_progress_bar,
    is_progress_bar_enabled,
)

from mha_viz.checkpoints.budget import first_line
from mha_viz.errors import BrokenCheckpointError, LoadError, UnsafeCheckpointError, translating

_BUILDING = threading.Lock()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Build networks inside of this: meanwhile transformers sets torch's default dtype.

    Its own log is silenced, too: a model's notes say what matters.
    """
    with _BUILDING, _quiet():
        yield


def config_of(folder: Path) -> PreTrainedConfig:
    """What config.json says, as its family reads it.

    Raises:
        UnsafeCheckpointError: it needs code of its own.
        BrokenCheckpointError: transformers cannot use it.
    """

    def refused(error: BaseException) -> LoadError:
        message = str(error)
        if "trust_remote_code" in message or "custom code" in message:
            return UnsafeCheckpointError(
                f"{folder.name} needs code of its own to be run, which is never done. Only "
                "families that transformers itself knows can be loaded."
            )
        return BrokenCheckpointError(
            f"config.json of {folder.name} is not one that transformers can use: "
            f"{first_line(message)}"
        )

    with translating(refused):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        # It would name a file of weights to be read instead of those that were checked.
        config.transformers_weights = None
        config.get_text_config()  # every later step asks for it
        return config


def tokenizer_of(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    """The tokenizer, seen to read a plain text.

    Raises:
        BrokenCheckpointError: there is none, or it reads nothing.
    """

    def unusable(error: BaseException) -> BrokenCheckpointError:
        return BrokenCheckpointError(
            f"{folder.name} has no usable tokenizer ({first_line(str(error))}): expected "
            "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece model "
            "beside config.json."
        )

    with translating(unusable):  # every broken file raises an exception of its own kind here
        tokenizer = AutoTokenizer.from_pretrained(
            folder, config=config, local_files_only=True, trust_remote_code=False
        )
        # Where files are missing, transformers makes one that knows special tokens and no other.
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise ValueError("its vocabulary is missing")
        if not tokenizer("a test", add_special_tokens=False)["input_ids"]:
            raise ValueError("it turns text into nothing")
        return tokenizer


class _quiet:
    """Transformers' warnings and bars kept off the terminal; the notes tell what matters."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("transformers")
        self.level, self.bars = self.logger.level, is_progress_bar_enabled()
        self.logger.setLevel(logging.ERROR)
        disable_progress_bar()

    def __exit__(self, *exc: object) -> None:
        self.logger.setLevel(self.level)
        if self.bars:
            enable_progress_bar()
