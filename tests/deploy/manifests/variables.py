"""The settings that a file of deploy/ gives the gateway."""

from collections.abc import Mapping

from gateway.settings import Settings


def settings_of(variables: Mapping[str, str]) -> Settings:
    """What the gateway takes them for; one that is no setting, or ill, is an error. Empty ones are not given."""
    given = {name.removeprefix("GATEWAY_").lower(): value for name, value in variables.items() if value}
    return Settings(**given)  # type: ignore[arg-type]  # it checks
