"""Messages to token ids and back: the `Renderer` contract, its backends, and what stands around them."""

from gateway.render.protocol import Renderer
from gateway.render.resolution import resolve

__all__ = ["Renderer", "resolve"]
