"""rollout-gateway: exact tokens between LLM agents and the engines of an RL training run."""

__version__ = "0.1.0"
