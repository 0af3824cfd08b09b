"""Train the demo's tokenizer on this repository's own text: ``python tools/train_tokenizer.py``.

Writes ``tokenizer.json`` and ``tokenizer_config.json`` into ``gateway/sim/tokenizer``; the chat template beside
them is written by hand. The text of the repository changes, so a later run gives other merges: the files are
trained once and committed, and trained again only on purpose.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "gateway" / "sim" / "tokenizer"
ENTRIES = 8000
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_name": "rollout-gateway/demo",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "model_max_length": 40960,
    "clean_up_tokenization_spaces": False,
    "additional_special_tokens": ["<|im_start|>", *MARKERS],
}


def texts() -> Iterator[str]:
    """The prose of the repository, its code, and everyday English, which code lacks."""
    for pattern in ("*.md", "docs/**/*.md", "gateway/**/*.py", "tests/**/*.py", "tools/*.py", "tools/*.txt"):
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text(encoding="utf-8")


def train() -> Tokenizer:
    """A byte-level BPE: it has an id for every byte, so no text is unknown to it."""
    tokenizer = Tokenizer(models.BPE())
    # No merge crosses a line's end. So a text that is cut behind one has the ids of its parts, and a history that
    # is rendered in pieces has the ids of the whole.
    lines = pre_tokenizers.Split("\n", "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([lines, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=ENTRIES,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        # Special, all of them: only special tokens can be left unmatched in a user's text.
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in (*CONTROL, *MARKERS)],
    )
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def main() -> None:
    """Train and write."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")
    print(f"{tokenizer.get_vocab_size()} entries, {(FOLDER / 'tokenizer.json').stat().st_size} bytes")


if __name__ == "__main__":
    main()
