"""Sampling parameters as JSON, typed: described in ``/openapi.json``, and read by `gateway.wire.chat.read_sampling`.

What stands here is as narrow as what is read, which tests hold it to; nothing is checked by it at run time.
"""

from typing import (
    Annotated,
    NotRequired,  # that of typing cannot be read by pydantic before Python 3.12
)

from pydantic import ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict

CLOSED = ConfigDict(extra="forbid", use_attribute_docstrings=True)
"""An object with these fields only."""
OPEN = ConfigDict(extra="allow", use_attribute_docstrings=True)
"""An object whose other fields are ignored."""

Positive = Annotated[int, Field(ge=1, le=2**63 - 1)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Signed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Field(ge=0, le=2**32 - 1)]
Stop = Annotated[str, Field(min_length=1, max_length=1024)]
_Size = Annotated[int, Field(ge=1, le=4096)]
_Bias = Annotated[float, Field(ge=-100, le=100)]
_NO_OTHERS: dict[str, JsonValue] = {"additionalProperties": False}
_TokenIdText = Annotated[str, Field(pattern="^[0-9]{1,10}$")]


@with_config(CLOSED)
class RepetitionDetection(TypedDict):
    """When an answer that goes in circles ends."""

    max_pattern_size: _Size
    min_pattern_size: NotRequired[Annotated[int, Field(ge=0, le=4096)] | None]
    """No more than `max_pattern_size`."""
    min_count: Annotated[int, Field(ge=2, le=4096)]
    """How often a pattern in a row is too often."""


class SamplingFields(TypedDict, total=False):
    """The fields themselves, for those that hold them. Of these, pydantic does not find what is said below them."""

    max_completion_tokens: Annotated[Positive | None, Field(description="Wins over `max_tokens`.")]
    max_tokens: Positive | None
    min_tokens: Annotated[Count | None, Field(description="No more than the limit, if one is given.")]
    temperature: Annotated[float, Field(ge=0, le=100)] | None
    top_p: Annotated[float, Field(ge=0, le=1)] | None
    top_k: Annotated[int, Field(ge=-1, le=2**63 - 1)] | None
    min_p: Annotated[float, Field(ge=0, le=1)] | None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None
    repetition_penalty: Annotated[float, Field(ge=0, le=100)] | None
    seed: Signed | None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None
    include_stop_str_in_output: bool | None
    ignore_eos: bool | None
    logit_bias: Annotated[
        Annotated[dict[_TokenIdText, _Bias | None], Field(max_length=1024, json_schema_extra=_NO_OTHERS)] | None,
        Field(description="By token id, in digits."),
    ]
    bad_words: Annotated[list[Stop], Field(max_length=128)] | None
    allowed_token_ids: Annotated[list[TokenId], Field(min_length=1, max_length=65_536)] | None
    thinking_token_budget: Annotated[int, Field(ge=-1, le=2**63 - 1)] | None
    repetition_detection: RepetitionDetection | None
    vllm_xargs: Annotated[dict[str, object] | None, Field(description="The engine's `extra_args`.")]


@with_config(CLOSED)
class SamplingParams(SamplingFields):
    """Sampling parameters, by the names that a chat request has for them."""
