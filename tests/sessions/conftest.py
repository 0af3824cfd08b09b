"""Gateways with simulated engines."""

from tests.houses import house, loaded_once, open_house, renderers, words

__all__ = ["house", "loaded_once", "open_house", "renderers", "words"]
