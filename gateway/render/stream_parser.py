"""An answer read as its ids come: thoughts, text and tool calls, told as soon as they are certain.

The one reader of every answer, streamed or not, for every family of models in `gateway.render.formats`. Its rules,
line by line, and where they differ from what the renderers' own parsers do: `docs/parsing.md`.
"""

from collections.abc import Sequence

from gateway.render.call_bodies import Call
from gateway.render.formats import Mark
from gateway.render.markers import Markers, Place
from gateway.render.parsed import Delta, Message, Parsed, Piece
from gateway.render.protocol import MessageDicts

MALFORMED = "malformed_tool_call"
"""The flag of an answer with a call that no client can be given."""
PAST_STOP = "past_stop"
"""The flag of an answer that goes on behind its first stop id, unseen."""


class TokenParser:
    """Fulfils `gateway.render.protocol.StreamParser`.

    `tools` tell the types of parameters that are written without quotes; where there are none, a call that is its own
    text is text.
    """

    def __init__(self, markers: Markers, tools: MessageDicts | None = None, *, prompt_ids: Sequence[int] = ()) -> None:
        self._markers, self._tools = markers, tools
        self._lexicons = markers.lexicons if tools else markers.toolless
        self._decoder = markers.decoder()
        self._is_over = False
        self._tail = ""
        """The end of the text so far, where it may begin a marker."""
        self._place = Place.START
        self._around = Place.CONTENT
        """Where a call stands."""
        self._message = Message()
        self._blank: list[str] = []
        """White space at the start."""
        self._held: list[tuple[Mark | None, str]] = []
        """What is undecided: texts, and markers that are tokens."""
        self._call: list[str] = []
        """A call so far, its markers included."""
        self._last_opener = 0
        self._edges = markers.form.edges
        self._piece = Piece(self._edges.start, self._edges.call)
        if prompt_ids and opens_thought(markers, prompt_ids):
            self._open_thought()

    def feed(self, token_ids: Sequence[int]) -> list[Delta]:
        """Take the next ids; what they make certain, in order. Ids behind a stop id say nothing."""
        start, marks, stops = 0, self._markers.marks, self._markers.stop_ids
        for at, token_id in enumerate(token_ids):
            if self._is_over:
                self._message.flag(PAST_STOP)
                break
            if token_id in stops or token_id in marks:
                self._scan(self._decoder.feed(token_ids[start:at]) + self._decoder.finish())
                self._decoder = self._markers.decoder()
                start = at + 1
                if token_id in stops:
                    self._is_over = True
                else:
                    self._meet(*marks[token_id])
        if not self._is_over:
            self._scan(self._decoder.feed(token_ids[start:]))
        return self._message.take()

    def finish(self) -> Parsed:
        """No more ids will come: the whole answer. It begins with what the deltas told."""
        if not self._is_over:
            self._is_over = True
            self._scan(self._decoder.finish())
        self._flush()
        if self._place is Place.UNDECIDED:
            self._close_thought()
            self._replay(Place.CONTENT)
        match self._place:
            case Place.THOUGHT:
                self._message.think(self._piece.end(cut=True))
            case Place.CALL if self._markers.form.is_open_ended:
                self._close_call(self._call)
            case Place.CALL:
                self._say_broken(self._call)
            case Place.START:
                self._begin_content()
        if self._place in (Place.CONTENT, Place.SECTION):
            self._message.say(self._piece.end(cut=False))
        return self._message.whole()

    @property
    def is_thinking(self) -> bool:
        """Whether a thought is open."""
        return not self._is_over and self._place in (Place.THOUGHT, Place.UNDECIDED)

    def _scan(self, text: str) -> None:
        """Take more text, and find the markers in it that are text."""
        text, self._tail = self._tail + text, ""
        at = self._begin(text) if self._place is Place.START else 0
        while found := self._lexicons[self._place].find(text, at):
            mark, start, end = found
            self._take(text[at:start])
            self._act(mark, text[start:end])
            at = end
        certain = self._lexicons[self._place].certain(text, at)
        self._take(text[at:certain])
        self._tail = text[certain:]

    def _begin(self, text: str) -> int:
        """Put white space aside. Behind it comes, or may come, a marker; where none can, the content begins."""
        lexicon, rest = self._lexicons[Place.START], text.lstrip()
        self._blank.append(text[: len(text) - len(rest)])
        if not lexicon.starts(rest) and lexicon.certain(rest, 0):
            self._begin_content()
        return len(text) - len(rest)

    def _meet(self, mark: Mark, text: str) -> None:
        """Take a marker that is a token."""
        self._flush()
        if self._place is Place.UNDECIDED and mark is not Mark.THINK_END:
            self._held.append((mark, text))
        elif mark in self._markers.awaited[self._place]:
            self._act(mark, text)
        else:
            self._take(text)

    def _take(self, text: str) -> None:
        """Take text without a marker in it."""
        if not text:
            return
        match self._place:
            case Place.THOUGHT | Place.DRAFT:
                self._message.think(self._piece.add(text))
            case Place.UNDECIDED:
                self._held.append((None, text))
            case Place.CALL:
                self._call.append(text)
            case Place.START | Place.CONTENT | Place.SECTION:
                if self._place is Place.START:
                    self._begin_content()
                self._message.say(self._piece.add(text))

    def _act(self, mark: Mark, text: str) -> None:
        """Do what an awaited marker says."""
        match mark:
            case Mark.THINK:
                if self._place is Place.START:
                    self._open_thought()
            case Mark.THINK_END:
                if self._place is Place.UNDECIDED:
                    self._replay(Place.DRAFT)
                self._close_thought()
            case _ if self._place is Place.THOUGHT:
                self._place, self._held = Place.UNDECIDED, [(mark, text)]
            case Mark.CALL_END:
                self._close_call([*self._call, text])
            case Mark.CALL if self._place is Place.CALL and self._markers.form.is_open_ended:
                self._close_call(self._call)
                self._leave_text(mark, text)
            case Mark.CALL if self._place is Place.CALL:
                self._last_opener = len(self._call)
                self._call.append(text)
            case _:
                self._leave_text(mark, text)

    def _leave_text(self, mark: Mark, text: str) -> None:
        if self._place is Place.START:
            self._begin_content()
        self._message.say(self._piece.end(cut=True))
        if mark in (Mark.CALL, Mark.BARE):
            self._around, self._place = self._place, Place.CALL
            self._call, self._last_opener = [text] if mark is Mark.CALL else ["", text], 0
        else:
            self._go_on(Place.SECTION if mark is Mark.SECTION else Place.CONTENT, self._edges.call)

    def _close_call(self, written: list[str]) -> None:
        calls, last = self._read(written), self._last_opener
        if not calls and last and (calls := self._read(written[last:])):
            self._say_broken(written[:last])
        for call in calls:
            self._message.call(call)
        if not calls:
            self._say_broken(written)
        self._go_on(self._around, self._edges.call)

    def _read(self, written: list[str]) -> tuple[Call, ...]:
        form = self._markers.form
        found = form.read_call("".join(written[1:] if form.is_open_ended else written[1:-1]), self._tools)
        return (found,) if isinstance(found, Call) else found or ()

    def _say_broken(self, written: list[str]) -> None:
        text = "".join(written)
        self._message.next_piece()
        self._message.say(text.strip() if self._edges.call is None else text)
        if written[0] or self._markers.form.bare_sign in text:
            self._message.flag(MALFORMED)

    def _begin_content(self) -> None:
        self._place = Place.CONTENT
        self._message.say(self._piece.add("".join(self._blank)))

    def _open_thought(self) -> None:
        self._place, self._piece = Place.THOUGHT, Piece(self._edges.thought, self._edges.thought)
        self._message.think("")

    def _close_thought(self) -> None:
        self._message.think(self._piece.end(cut=True))
        self._go_on(Place.CONTENT, self._edges.after_thought)

    def _go_on(self, place: Place, left: str | None) -> None:
        """Go on in text behind a marker."""
        self._place, self._piece = place, Piece(left, self._edges.call)
        self._message.next_piece()

    def _replay(self, place: Place) -> None:
        """Take what was undecided once more, knowing what it is."""
        self._place = place
        held, self._held = self._held, []
        for mark, text in held:
            if mark:
                self._meet(mark, text)
            else:
                self._scan(text)
        self._flush()

    def _flush(self) -> None:
        """What may have become a marker is none."""
        tail, self._tail = self._tail, ""
        self._take(tail)


def opens_thought(markers: Markers, prompt_ids: Sequence[int]) -> bool:
    """Whether the prompt ends inside a thought, as the prompts of families do that always think first."""
    opening = TokenParser(markers)
    opening.feed(markers.opening(prompt_ids))
    return opening.is_thinking
