"""What is claimed of a model's trials: the test classes inherit it, a class for each model.

Each class has a process, since tokenizers take long to load.
"""

from collections.abc import Sequence

import pytest

from tests.models import shares
from tests.models.account import account_of
from tests.models.backends import TRIALS, Trial
from tests.models.histories import EXPLAINED
from tests.models.parity import differing

DROPS = {"run_on"}
"""What must be odd about an answer for prime's own bridge to drop what was sampled."""
LATE_TOOLS = {"DeepSeek-V4 prime"}
"""Where a bridge shows a first system message as it is, and the template would write the tools beside it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of a class for each of its trials."""
    if metafunc.cls is None:
        return
    trials: list[Trial] = metafunc.cls.trials
    if "comparable" in metafunc.fixturenames:
        trials, name = [trial for trial in trials if trial.is_comparable], "comparable"
    else:
        name = "trial"
    metafunc.parametrize(name, trials, ids=str)


def trials_of(model: str, *backends: str) -> list[Trial]:
    """Those of a model and of some backends."""
    return [trial for trial in TRIALS if trial.model == model and trial.backend in backends]


class Bridges:
    """Claims of bridges, in five hundred conversations."""

    trials: Sequence[Trial]

    def test_each_begins_with_what_was_sampled_and_ends_as_the_whole_history_does(self, trial: Trial) -> None:
        """Unless the answer was cut short, behind which a template has nothing to say. So do those that the renderer
        gives to one who knows nothing but its four methods.
        """
        faults = account_of(trial).faults

        assert not faults, "\n".join(faults)

    def test_none_of_the_renderers_own_is_unproven_but_some_of_primes(self, trial: Trial) -> None:
        """And those only where the answer was closed early and cut then."""
        unproven = set(account_of(trial).unproven)

        assert unproven <= (DROPS if trial.backend == "prime" else set())

    def test_the_tools_that_a_late_system_message_would_bring_are_missed_where_that_is_known(
        self, trial: Trial
    ) -> None:
        """The template hangs them on the first system message, wherever that stands."""
        assert (account_of(trial).late_tools > 0) == (str(trial) in LATE_TOOLS)

    def test_what_was_cut_is_bridged_by_none_but_prime(self, trial: Trial) -> None:
        """Which closes it: nobody else knows how the model would have ended."""
        account = account_of(trial)

        assert account.turns["cut"] > 100
        assert (account.bridged["cut"] > 0) == (trial.backend == "prime")

    def test_there_are_enough_of_them(self, trial: Trial) -> None:
        """Behind answers as the template writes them, too; or nothing was said above."""
        account = account_of(trial)

        assert account.turns.total() > 1000
        assert account.bridged.total() > 300
        assert account.extends[True] > 100

    def test_the_documentation_tells_their_share(self, trial: Trial) -> None:
        """``python -m tests.models.shares`` writes it."""
        assert shares.row(trial) in shares.written().splitlines()


class Renders:
    """Claims of what is rendered of a model that has a template."""

    trials: Sequence[Trial]

    def test_they_are_what_the_template_makes_of_the_same(self, comparable: Trial) -> None:
        """Id for id, or refused by both, in all histories but those whose differences are explained."""
        with comparable.translator() as translator:
            found = differing(translator.renderer, translator.tokenizer)

        assert found == set(EXPLAINED.get(str(comparable), {}))
