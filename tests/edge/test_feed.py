"""What a streamed call says, and how far its readers may fall behind."""

import asyncio
from collections.abc import Sequence

from gateway.core.types import Delta
from gateway.edge.feed import Feed, Reader
from gateway.wire.pieces import PIECE_CHARS, Piece, joined


def feed(room_bytes: int = 10) -> Feed:
    """A feed of one choice."""
    return Feed("s", ("t",), room_bytes)


def pieces(*texts: str) -> list[Piece]:
    """These texts, each an id's."""
    return [Piece(0, "content", text, at) for at, text in enumerate(texts, 1)]


def text(said: Sequence[Piece]) -> str:
    """What the pieces say."""
    return "".join(piece.text for piece in said)


async def adding(one: Feed, *texts: str) -> "asyncio.Task[None]":
    """A call that has said as much as it could."""
    task = asyncio.ensure_future(one.add(pieces(*texts)))
    await asyncio.sleep(0)
    return task


async def test_a_call_waits_when_its_reader_is_too_far_behind() -> None:
    """Until something is taken, and no longer; the room is never overfilled, but one piece always has room."""
    one = feed(10)
    with Reader(one) as reader:
        call = await adding(one, "éé" * 2, "bb", "c", "x" * 40)
        assert (call.done(), reader.behind_bytes) == (False, 10)
        assert text(reader.take()) == "éé" * 2 + "bb"
        await asyncio.sleep(0)
        assert (call.done(), reader.behind_bytes) == (False, 1)
        assert text(reader.take()) == "c"
        await call
        assert (text(reader.take()), reader.behind_bytes) == ("x" * 40, 0)


async def test_the_furthest_of_several_readers_counts() -> None:
    """One that stalls holds up nobody else, and the last to leave lets the call go on."""
    one = feed(3)
    with Reader(one) as stalled:
        with Reader(one) as reads:
            call = await adding(one, "aaa", "bbb", "ccc", "ddd")
            assert text(reads.take()) == "aaa"
            await asyncio.sleep(0)
            assert (text(reads.take()), stalled.behind_bytes) == ("bbb", 6)
        assert not call.done()
    await call


async def test_with_nobody_to_read_it_does_not_wait() -> None:
    """Who joins reads it from the beginning, and knows at once that it has begun."""
    one = feed(3)
    one.begin()
    await one.add(pieces("aaa", "bbb", "ccc"))
    with Reader(one) as joined_late:
        assert joined_late.behind_bytes == 9
        assert await joined_late.wait(0)
        assert text(joined_late.take()) == "aaabbbccc"
        assert not await joined_late.wait(0)


async def test_a_reader_hears_that_it_has_begun_and_that_it_has_ended() -> None:
    """Though nothing is said."""
    one = feed()
    with Reader(one) as before:
        assert not await before.wait(0)
        one.begin()
        with Reader(one) as after:
            assert await before.wait(0)
            assert await after.wait(0)
            assert not await after.wait(0)
        one.end()
        assert await before.wait(0)
        assert (before.has_ended, before.take()) == (True, [])
        await before.pause(10)


async def test_the_rest_is_said_at_the_end_bit_by_bit() -> None:
    """It takes no room, since the turn's record holds it; every reader gets it in writes that are not too long."""
    one = feed(10)
    with Reader(one) as reader:
        await one.add(pieces("a"))
        one.add_rest(0, [Delta(content="x" * 3 * PIECE_CHARS)], 5)
        assert text(reader.take()) == "a"
        assert reader.take() == []
        one.end()
        with Reader(one) as late:
            for some in (reader, late):
                said = list(iter(some.take, []))
                assert text(joined(piece for taken in said for piece in taken)).lstrip("a") == "x" * 3 * PIECE_CHARS
                assert max(len(text(taken)) for taken in said) <= PIECE_CHARS + 1
                assert some.behind_bytes == 0
