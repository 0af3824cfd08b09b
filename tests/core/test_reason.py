"""Why a prompt was rendered is one of a closed set, and so a bounded label."""

from gateway.core.reason import Reason


def test_the_reasons_are_these():
    """Trainers and dashboards count them by name: a new one is a change of the surface."""
    changed = ["model_changed", "template_kwargs_changed", "tools_changed", "system_changed"]
    history = ["first_turn", *changed, "history_edited", "history_shortened", "foreign_assistant", "no_new_messages"]
    bridge = ["stop_cut", "truncated_parent", "bridge_declined", "bridge_unproven", "multimodal"]

    assert [*history, *bridge] == [str(reason) for reason in Reason]
