"""Who may tokenize: one thread at a time for each tokenizer.

A tokenizer has state that encoding reads and other options of encoding change, whether control tokens are looked for
above all: two threads that encode with different options get wrong ids, and no error. Nothing is gained by encoding
side by side either, since that holds the interpreter's lock for half of the time. So whoever calls a renderer, or
encodes a text that may be long, holds the tokenizer's lock. So does whoever makes a renderer: that tries it out, and
has the tokenizer go by the name of its model for a while.

Without it, on the event loop, tokens are decoded, which changes nothing; and `StopWatch` encodes what a stop string
leaves of a token, with the options that everybody uses. A renderer that uses others has a tokenizer of its own.
"""

from threading import Lock, RLock
from weakref import WeakKeyDictionary

from gateway.render.protocol import Tokenizer

_locks: "WeakKeyDictionary[Tokenizer, RLock]" = WeakKeyDictionary()
"""The locks of the tokenizers that are in use: all that is kept here, and `_making` guards it."""
_making = Lock()


def lock_of(tokenizer: Tokenizer) -> RLock:
    """The one lock of a tokenizer, whoever asks; who holds it may take it again."""
    with _making:
        return _locks.setdefault(tokenizer, RLock())
