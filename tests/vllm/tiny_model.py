"""Write a tiny random-weight Qwen3 that a CPU vLLM can serve: ``tiny_model.py OUT TOKENIZER_DIR``.

The weights mean nothing (39 MB, two layers); the tokenizer is the real one, so token ids are too.
Runs inside the vLLM environment, which has torch and transformers.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

IM_END, END_OF_TEXT = 151645, 151643


def main(out: Path, tokenizer: Path) -> None:
    """Write weights, config, generation config and tokenizer files into `out`."""
    torch.manual_seed(20)
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,  # a size that vLLM's CPU attention supports
        max_position_embeddings=40960,
        tie_word_embeddings=True,
        bos_token_id=END_OF_TEXT,
        eos_token_id=IM_END,
        dtype="float32",
        initializer_range=0.3,
    )
    Qwen3ForCausalLM(config).save_pretrained(out)
    GenerationConfig(
        bos_token_id=END_OF_TEXT,
        eos_token_id=[IM_END, END_OF_TEXT],
        pad_token_id=END_OF_TEXT,
        do_sample=True,
        temperature=0.6,
        top_k=20,
        top_p=0.95,
    ).save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, out / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
