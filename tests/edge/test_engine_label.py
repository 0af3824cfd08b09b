"""What an engine is called in the labels of metrics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.engine_label import EngineLabels


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("http://engine:8000", "engine:8000"),
        ("http://Engine", "engine:80"),
        ("https://engine", "engine:443"),
        ("http://10.0.0.7:8000", "10.0.0.7:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://[fd00::8]", "[fd00::8]:80"),
    ],
)
def test_an_engine_is_its_host_and_port(url: str, label: str) -> None:
    """An IPv6 address keeps its brackets, so that the port is told from it; a port that goes without saying is said."""
    assert EngineLabels().of(url) == label


def test_what_stands_in_a_path_is_not_shown() -> None:
    """Nor in which order engines came."""
    one, another = EngineLabels(), EngineLabels()
    a, b = "http://proxy:8000/token-8f3b/a", "http://proxy:8000/token-8f3b/b"

    labels = [one.of(a), one.of(b)]
    assert [another.of(b), another.of(a)] == labels[::-1]
    assert len(set(labels)) == 2
    assert all(label.startswith("proxy:8000/") and "token" not in label for label in labels)


@given(st.lists(st.tuples(*map(st.sampled_from, (["http", "https"], ["h", "[::1]"], ["", ":80", ":443"], ["", "/a"])))))
def test_no_two_have_one_label(parts: list[tuple[str, str, str, str]]) -> None:
    """Whatever they share; and each keeps its own."""
    labels, urls = EngineLabels(), {f"{scheme}://{host}{port}{path}" for scheme, host, port, path in parts}
    given_ = {url: labels.of(url) for url in urls}

    assert len(set(given_.values())) == len(urls)
    assert {url: labels.of(url) for url in urls} == given_


def test_what_is_forgotten_is_free() -> None:
    """An engine that is gone takes no label from others; to forget it again changes nothing."""
    labels = EngineLabels()
    assert labels.of("http://h:443") == "h:443"
    assert labels.of("https://h").startswith("h:443/")
    for _ in range(2):
        labels.forget("http://h:443")
        labels.forget("https://h")
    assert labels.of("https://h") == "h:443"
