"""The page of a description says all of it, and needs nothing else."""

import re
from html.parser import HTMLParser
from typing import Any

import orjson
import pytest

from gateway.wire.description_page import kind_of, page_of
from gateway.wire.openapi import Route, describe
from gateway.wire.operations import OPERATIONS
from tests.wire.bodies import description


class Page(HTMLParser):
    """What a page holds: ids, links, and tags that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.ids += [said["id"] or ""] if "id" in said else []
        self.links += [said[name] or "" for name in ("href", "src") if name in said]
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text() -> str:
    """The page of all routes, of which one says what could be read as HTML."""
    routes = tuple(Route(method, path, "What <is> & 'is'") for method, path in OPERATIONS)
    return page_of(describe(routes)).decode()


def test_it_is_whole_and_names_every_operation_and_body_once(text: str):
    """Every tag is closed."""
    page = Page(text)
    names = [operation.name for operation in OPERATIONS.values()] + list(description()["components"]["schemas"])
    assert page.open == []
    assert sorted(page.ids) == sorted(names)
    assert all(path in text for _, path in OPERATIONS)


def test_it_needs_nothing_but_itself(text: str):
    """Each link leads to a place on it, or to what it was made of; it runs and fetches nothing."""
    page = Page(text)
    assert {link for link in page.links if link.removeprefix("#") not in page.ids} == {"openapi.json"}
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text


def test_what_a_description_says_is_text_on_it(text: str):
    """Whatever it looks like."""
    assert "What &lt;is&gt; &amp; &#39;is&#39;" in text
    assert "<is>" not in text


def test_answers_of_several_media_are_set_apart_and_nothing_follows_the_last(text: str):
    assert "each</td>" in text
    assert "</a>; text/event-stream: " in text
    assert not re.search(r"(</a>|string|object);\s*</td>", text)


def test_code_in_prose_looks_like_code(text: str):
    """Nobody sees a backtick."""
    assert "<code>/v1</code>" in text
    assert "`" not in text


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "minLength": 1, "maxLength": 5}, "string (1 characters or more, up to 5 characters)"),
        ({"type": "string", "pattern": "<a>"}, "string (like &lt;a&gt;)"),
        ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, "integer (at least 0)"),
        ({"type": "integer", "minimum": -(2**63)}, "integer"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"oneOf": [{"const": 1}, {"enum": ["a", None]}]}, "1 | &#34;a&#34; | null"),
        ({"$ref": "#/components/schemas/Session"}, '<a href="#Session">Session</a>'),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Row"}}, 'list of <a href="#Row">Row</a>'),
        ({"type": "array"}, "list of anything"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"type": "object", "patternProperties": {"^x": {"type": "number"}}}, "object of number"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({}, "anything"),
    ],
)
def test_a_value_is_told_in_a_few_words(schema: dict[str, Any], words: str):
    """Bounds that nobody meets are left out."""
    assert str(kind_of(schema)) == words


def test_every_field_that_must_be_there_is_marked(text: str):
    """As many as the description requires."""
    told = orjson.loads(orjson.dumps(description()))
    schemas = told["components"]["schemas"].values()
    fields = sum(len(set(schema.get("required", ())) & set(schema.get("properties", ()))) for schema in schemas)
    operations = [operation for methods in told["paths"].values() for operation in methods.values()]
    bodies = sum(operation.get("requestBody", {}).get("required", False) for operation in operations)
    in_paths = sum(parameter["required"] for operation in operations for parameter in operation.get("parameters", ()))
    assert len(re.findall('class="must"', text)) == fields + bodies + in_paths
