"""rollout-gateway: exact tokens between LLM agents and the engines of an RL training run.

PYTEST_DONT_REWRITE: the package has a pytest plugin, so pytest would warn of each run that is begun by a program which
has imported it, since its assertions cannot be rewritten any more.
"""

__version__ = "0.1.0"
