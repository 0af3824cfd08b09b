"""How the turns of these tests are sampled, where it does not matter to them."""

from typing import Any

from gateway.core.sampling import record
from gateway.core.types import Sampling

HOW: dict[str, Any] = {"sampling": record(Sampling(), max_tokens=100, stop_token_ids=(2,)), "ended_by": "stop"}
