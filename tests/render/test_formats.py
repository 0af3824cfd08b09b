"""The formats as data."""

import pytest
from renderers.base import MODEL_RENDERER_MAP

from gateway.render.formats import CALL_FORMATS, DEMO, FORMATS, Mark

ALL = {"demo": DEMO, **FORMATS, **CALL_FORMATS}


def test_formats_are_found_by_the_names_of_primes_renderers():
    """No name is made up."""
    assert set(FORMATS) <= set(MODEL_RENDERER_MAP.values())


@pytest.mark.parametrize("form", ALL.values(), ids=ALL)
def test_markers_can_be_told_apart(form):
    """None is the beginning of another or starts with white space; what is opened can be closed."""
    texts = [*form.tokens, *form.texts]
    assert not [(one, other) for one in texts for other in texts if one != other and other.startswith(one)]
    assert [text.lstrip() for text in texts] == texts
    marks = {*form.tokens.values(), *form.texts.values()}
    assert Mark.CALL in marks
    assert (Mark.CALL_END in marks) != form.is_open_ended
    for opens, closes in ((Mark.THINK, Mark.THINK_END), (Mark.SECTION, Mark.SECTION_END)):
        assert (opens in marks) == (closes in marks)
    assert form.ends_thought in {None, *marks}
