"""Messages to token ids and back: the `Renderer` contract, its backends, and what stands around them."""
