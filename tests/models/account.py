"""What a backend made of the bridges of many stories."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from gateway.render.translator import Translator
from tests.models.backends import Trial
from tests.models.playing import Step, steps
from tests.models.stories import story

STORIES = 500
Kind = Literal["user", "tool", "cut"]
"""What a turn follows: a whole answer and then a user's words or tools' results, or an answer that was cut short."""


@dataclass(slots=True)
class Account:
    """The turns of the stories, but the first of each."""

    turns: Counter[Kind] = field(default_factory=Counter)
    bridged: Counter[Kind] = field(default_factory=Counter)
    """Those of them whose prompt extends what was sampled."""
    extends: Counter[bool] = field(default_factory=Counter)
    """Bridged turns behind a whole answer, by whether the render of the whole history extends what was sampled, too."""
    unproven: Counter[str] = field(default_factory=Counter)
    """Bridges of the renderer's own that do not begin with what was sampled, by what was odd about the answer."""
    late_tools: int = 0
    """Bridges of a first system message in the midst, where the template would have the tools beside it."""
    faults: list[str] = field(default_factory=list)
    """Bridges whose new part is not that of the whole history, or that the gateway sees otherwise than we do."""


@cache
def account_of(trial: Trial) -> Account:
    """All stories, played through the backend."""
    account = Account()
    with trial.translator() as translator:
        pen = trial.pen(translator)
        for number in range(STORIES):
            told = story(str(number), trial.manner)
            for nth, step in enumerate(steps(translator, pen, told), start=1):
                for fault in _noted(account, translator, step):
                    account.faults.append(f"{trial}, story {number}, turn {nth}, {step.oddity}: {fault}")
    return account


def _noted(account: Account, translator: Translator, step: Step) -> Iterator[str]:
    prompt_ids, sampled = step.known
    known, ids = prompt_ids + sampled, step.prompt.ids
    is_cut = step.oddity in ("truncated", "run_on")
    kind: Kind = "cut" if is_cut else "tool" if step.follows_tools else "user"
    account.turns[kind] += 1
    own = _alone(translator, step)
    if own is not None and own[: len(known)] != known:
        account.unproven[step.oddity] += 1
    elif own is not None and own != ids:
        # Its own parse may know what ours does not: a thought spelt in letters, say. Ours is a render then.
        new = own[len(known) :]
        if step.prompt.base is not None or is_cut or ids[-len(new) :] != new:
            yield f"by its four methods alone the renderer bridges so: {translator.tokenizer.decode(new)!r}"
    if step.prompt.base is None:
        return
    account.bridged[kind] += 1
    if ids[: len(known)] != known:
        yield "the prompt does not begin with what was sampled"
    if not is_cut:
        whole = translator.render(step.pending.history(), step.pending.request.tools)
        extends = whole[: len(known)] == known
        account.extends[extends] += 1
        if whole == ids if extends else _is_end(translator, step, whole):
            return
        if _has_late_system(step):
            account.late_tools += 1
        else:
            text = translator.tokenizer.decode(ids[len(known) :])
            yield f"{text!r} is not what follows the answer in {translator.tokenizer.decode(whole)!r}"


def _is_end(translator: Translator, step: Step, whole: list[int]) -> bool:
    """Whether the new part is the end of a whole render, from the end of its answer on, and has all new texts."""
    new, extension = step.prompt.ids[sum(map(len, step.known)) :], step.pending.extension()
    text, stops = _spaced(translator.tokenizer.decode(new)), {*translator.stop_ids}
    before, end = whole[: -len(new)], whole[-len(new) :]
    if end != new or not all(_spaced(message.content) in text for message in extension):
        return False
    if before[-1] in stops:
        return True
    history = step.pending.history()[: -len(extension)]
    told = translator.render(history, step.pending.request.tools, opened=False)
    return before == told and not stops & {*told[-2:]}  # there are templates that leave a call open


def _spaced(text: str) -> str:
    """A text as a template strips it, and as decoders of SentencePiece have its spaces."""
    return text.strip().replace("\N{LOWER ONE EIGHTH BLOCK}", " ")


def _has_late_system(step: Step) -> bool:
    late = any(message.role == "system" for message in step.pending.extension())
    return late and not step.pending.system and bool(step.pending.request.tools)


def _alone(translator: Translator, step: Step) -> list[int] | None:
    """What the renderer extends a turn with for one who knows nothing but its four methods."""
    new, tools = translator._dicts(step.pending.extension()), [dict(tool) for tool in step.pending.request.tools]
    result: Any = translator.renderer.bridge_to_next_turn(*step.known, new, tools=tools or None)
    return None if result is None else list(getattr(result, "token_ids", result))
