"""Gateways as the tests of the edge have them."""

from tests.edge.conftest import house, loaded_once, open_house, renderers, words

__all__ = ["house", "loaded_once", "open_house", "renderers", "words"]
