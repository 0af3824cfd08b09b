"""What engines say of a request reaches its sender without what it was sent."""

from gateway.core.echo import tells_context_is_full, without_echo


def test_a_validation_error_keeps_its_complaints_and_nothing_of_the_request():
    """Each once, as vLLM words them; with none that can be read, the caller still hears what is wrong."""
    text = "2 validation errors:\n  {'type': 'missing', 'msg': 'Field required', 'input': {'secret': 1}}"
    twice = text + "\n  {'msg': 'Field required', 'input': 2}"
    assert without_echo(text) == without_echo(twice) == "Field required"
    assert without_echo("1 validation error: secret") == "the request is not valid"


def test_ids_paths_and_further_lines_are_left_out():
    """And a message is no longer than what a person reads."""
    assert without_echo("token [1, 2, 3, 4] in /usr/lib/python3/x.py\nsecret") == "token […] in …"
    assert without_echo("[1, 2, 3") == "[…]"
    assert len(without_echo("a" * 5000)) == 300


def test_a_context_that_is_full_is_known_by_either_wording():
    """That of render and that of generate."""
    assert tells_context_is_full("This model's maximum context length is 4096 tokens.")
    assert tells_context_is_full("longer than the maximum model length of 4096")
    assert not tells_context_is_full("no")
