"""What `tests.models` claims of other backends, of tinker-cookbook's renderers."""

from tests.models.claims import Bridges, pytest_generate_tests, trials_of

__all__ = ["pytest_generate_tests"]


class TestQwen3(Bridges):
    trials = trials_of("Qwen3", "tinker")


class TestDeepSeekV31(Bridges):
    trials = trials_of("DeepSeek-V3.1", "tinker")


class TestLlama31(Bridges):
    trials = trials_of("Llama 3.1", "tinker")
