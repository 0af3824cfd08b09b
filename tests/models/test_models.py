"""What is claimed of each backend on each model whose tokenizer can be had; tinker-cookbook's are in tests/tinker."""

from tests.models import shares
from tests.models.claims import Bridges, Renders, pytest_generate_tests, trials_of

__all__ = ["pytest_generate_tests"]


class TestQwen3(Bridges, Renders):
    trials = trials_of("Qwen3", "prime", "template", "remote")


class TestDeepSeekV3(Bridges, Renders):
    trials = trials_of("DeepSeek-V3", "prime", "template", "remote")


class TestDeepSeekV4(Bridges):
    trials = trials_of("DeepSeek-V4", "prime")


class TestGemma3(Bridges, Renders):
    trials = trials_of("Gemma 3", "template")


def test_the_documentation_tells_which_models_are_known_by_name():
    """``python -m tests.models.shares`` writes that table, too."""
    text = shares.written()
    assert shares.with_table(text, "models", shares.models()) == text
