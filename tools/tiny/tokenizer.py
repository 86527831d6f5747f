"""A byte-level BPE tokenizer, trained on the tasks and on text in many scripts.

Small on purpose: most characters beyond ASCII have to be put together from several tokens, which is
what a detokenizer gets wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from testing.e2e.tasks.problems import problems
from tools.tiny.texts import SENTENCES

VOCAB_SIZE = 512
BEGIN, END, SYSTEM, USER, ASSISTANT = (
    f"<|{name}|>" for name in ("begin", "end", "system", "user", "assistant")
)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_PROBLEMS = 4000
_TASKS = ("addition", "capital", "sorting")


def train_tokenizer(seed: int) -> Tokenizer:
    """A tokenizer of `VOCAB_SIZE` tokens that encodes any text; BEGIN comes first in each.

    seed: of the problems that it is trained on.
    """
    tokenizer = Tokenizer(models.BPE())
    # A token a digit: sums are done digit by digit.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[BEGIN, END, SYSTEM, USER, ASSISTANT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(seed), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json, as Hugging Face folders have them."""
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True) + "\n")
    settings = {
        "add_bos_token": True,
        "bos_token": BEGIN,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _texts(seed: int) -> Iterator[str]:
    yield from SENTENCES
    # Copied symbols are left out: of two to four bytes, they shall stay that many tokens.
    for problem in islice(problems(seed, held_out=False, tasks=_TASKS), _PROBLEMS):
        yield problem.prompt + problem.answer
