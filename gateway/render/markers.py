"""A format bound to a tokenizer: which ids and which texts are markers, and where each is awaited."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from gateway.render.decoder import Decoder
from gateway.render.formats import Format, Mark
from gateway.render.protocol import Tokenizer
from gateway.render.token_text import token_texts


class Place(Enum):
    """Where in an answer a reader stands."""

    START = auto()
    """Nothing but white space has been said."""
    THOUGHT = auto()
    UNDECIDED = auto()
    """Behind a call in an open thought: a draft if the thought closes later, else a call."""
    DRAFT = auto()
    """In a thought that is known to close."""
    CONTENT = auto()
    SECTION = auto()
    """In a group of calls, and in none of them."""
    CALL = auto()


class Lexicon:
    """Some markers that are found in text. None is the beginning of another."""

    def __init__(self, marks: Mapping[str, Mark]) -> None:
        self._marks = marks
        self._pattern = re.compile("|".join(map(re.escape, marks)) or r"(?!)")
        self._beginnings = frozenset(text[:length] for text in marks for length in range(1, len(text)))
        self._longest = max(map(len, self._beginnings), default=0)

    def find(self, text: str, start: int) -> tuple[Mark, int, int] | None:
        """The first marker from `start` on, and where it begins and ends."""
        found = self._pattern.search(text, start)
        return found and (self._marks[found[0]], *found.span())

    def starts(self, text: str) -> bool:
        """Whether a marker stands in front."""
        return self._pattern.match(text) is not None

    def certain(self, text: str, start: int) -> int:
        """Up to where no marker can begin any more, whatever follows; `text` has no marker from `start` on."""
        for length in range(min(self._longest, len(text) - start), 0, -1):
            if text[-length:] in self._beginnings:
                return len(text) - length
        return len(text)


class Markers:
    """A format, a tokenizer and the ids that end a turn: made once, since to look up a vocabulary takes long.

    Raises:
        ValueError: the tokenizer lacks one of the format's tokens.
    """

    def __init__(self, form: Format, tokenizer: Tokenizer, stop_ids: Iterable[int]) -> None:
        vocabulary = token_texts(tokenizer).vocabulary
        missing = [text for text in form.tokens if text not in vocabulary]
        if missing:
            raise ValueError(f"the tokenizer has no {missing[0]}")
        marks = {**form.tokens, **form.texts}
        self.form, self.stop_ids = form, frozenset(stop_ids)
        self._decoder = Decoder(tokenizer)  # now, since the first one of a tokenizer takes long
        tokens = {text: mark for text, mark in marks.items() if text in vocabulary and mark is not Mark.BARE}
        self.marks = {vocabulary[text]: (mark, text) for text, mark in tokens.items()}
        """Markers that are tokens, by id."""
        self.awaited = _awaited(form.ends_thought)
        texts = {text: mark for text, mark in marks.items() if text not in tokens}
        self.lexicons = self._lexicons(texts)
        """Markers that are text, by where they are awaited."""
        self.toolless = self._lexicons({text: mark for text, mark in texts.items() if mark is not Mark.BARE})
        """Those of answers for which no tool was offered: JSON may be what was asked for."""
        headers = [tokenizer.encode(header, add_special_tokens=False) for header in form.headers]
        self._headers = {header[0]: header for header in headers}

    def decoder(self) -> Decoder:
        """A decoder at the start of a text."""
        return self._decoder.copy()

    def opening(self, prompt_ids: Sequence[int]) -> Sequence[int]:
        """What the prompt puts into the assistant's mouth: all behind the last header; nothing without one."""
        for at in range(len(prompt_ids) - 1, -1, -1):
            if header := self._headers.get(prompt_ids[at]):
                end = at + len(header)
                return prompt_ids[end:] if list(prompt_ids[at:end]) == header else ()
        return ()

    def _lexicons(self, marks: Mapping[str, Mark]) -> dict[Place, Lexicon]:
        return {
            place: Lexicon({text: mark for text, mark in marks.items() if mark in awaited})
            for place, awaited in self.awaited.items()
        }


def _awaited(ends_thought: Mark | None) -> dict[Place, frozenset[Mark]]:
    """What means something where; elsewhere a marker is text."""
    return {
        Place.START: frozenset({Mark.THINK, Mark.SECTION, Mark.CALL, Mark.BARE}),
        Place.THOUGHT: frozenset({Mark.THINK, Mark.THINK_END, *([ends_thought] if ends_thought else [])}),
        Place.UNDECIDED: frozenset({Mark.THINK_END}),
        Place.DRAFT: frozenset({Mark.THINK, Mark.THINK_END}),
        Place.CONTENT: frozenset({Mark.SECTION, Mark.CALL}),
        Place.SECTION: frozenset({Mark.SECTION, Mark.SECTION_END, Mark.CALL}),
        Place.CALL: frozenset({Mark.CALL, Mark.CALL_END}),
    }
