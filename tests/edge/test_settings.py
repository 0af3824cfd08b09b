"""Settings, one by one; what is ill is named in one line with its remedy."""

from dataclasses import fields

import pytest
from pydantic import ValidationError

from gateway.core.pool import Bounds
from gateway.errors import ConfigError
from gateway.settings import Settings
from gateway.settings_sources import load_settings


def test_a_flag_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a flag that was not given is no flag."""
    monkeypatch.setenv("GATEWAY_MODEL", "from-the-environment")
    monkeypatch.setenv("GATEWAY_PORT", "1234")

    settings = load_settings(model="from-a-flag", port=None)

    assert settings.model == "from-a-flag"
    assert settings.port == 1234
    assert settings.host == "127.0.0.1"


def test_every_kind_of_setting_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, booleans, secrets and lists."""
    values = {"MODEL": "m", "ALLOW_BRIDGELESS": "true", "AGENT_KEY": "k", "CONNECT_TIMEOUT_S": "0.5"}
    for name, value in (values | {"ENGINE": "http://a,http://b"}).items():
        monkeypatch.setenv(f"GATEWAY_{name}", value)

    settings = load_settings()

    assert settings.allow_bridgeless is True
    assert settings.agent_key is not None
    assert settings.agent_key.get_secret_value() == "k"
    assert settings.connect_timeout_s == 0.5
    assert settings.engine == ("http://a", "http://b")


def test_one_engine_from_the_environment_is_a_plain_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what everybody writes into a variable."""
    monkeypatch.setenv("GATEWAY_ENGINE", "http://a")

    assert load_settings(model="m").engine == ("http://a",)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({}, "--model"),
        ({"model": "m", "port": 70000}, "--port"),
        ({"model": "m", "port": -1}, "--port"),
        ({"model": "m", "max_body_bytes": 0}, "--max-body-bytes"),
        ({"model": "m", "max_context_tokens": 0}, "--max-context-tokens"),
        ({"model": "m", "max_completion_tokens": -1}, "--max-completion-tokens"),
        ({"model": "m", "max_turns": "few"}, "--max-turns"),
        ({"model": "m", "tombstone_ttl_s": -1}, "--tombstone-ttl-s"),
        ({"model": "m", "connect_timeout_s": 0}, "--connect-timeout-s"),
        ({"model": "m", "connect_timeout_s": float("nan")}, "--connect-timeout-s"),
        ({"model": "m", "disconnect_grace_s": -1}, "--disconnect-grace-s"),
        ({"model": "m", "disconnect_grace_s": float("inf")}, "--disconnect-grace-s"),
        ({"model": "m", "retry_window_s": -1}, "--retry-window-s"),
        ({"model": "m", "retry_window_calls": -1}, "--retry-window-calls"),
        ({"model": "m", "thinking_retention": "some"}, "--thinking-retention"),
        ({"model": "m", "store": "sqlite:///x"}, "--store"),
        ({"model": "m", "engine": ("localhost:8000",)}, "--engine"),
        ({"model": "m", "engine": ("",)}, "--engine"),
        ({"model": "m", "hots": "x"}, "--hots"),
        ({"model": "m", "noise_key": ("name",)}, "--noise-key"),
        ({"model": "m", "noise_prefix": ("x" * 257,)}, "--noise-prefix"),
        ({"model": "m", "tag_header": ("a header",)}, "--tag-header"),
        ({"model": "m", "tag_header": ("x" * 65,)}, "--tag-header"),
    ],
)
def test_an_ill_setting_is_named_in_one_line(flags: dict[str, object], named: str) -> None:
    """By its flag, which is how it was most likely given."""
    with pytest.raises(ConfigError) as refused:
        load_settings(**flags)

    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(named)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_nothing_beyond_loopback_is_served_without_a_key(host: str) -> None:
    """Unless the operator insists; the line says how."""
    with pytest.raises(ConfigError) as refused:
        load_settings(model="m", host=host)

    assert all(remedy in str(refused.value) for remedy in ("--agent-key", "--admin-key", "--insecure"))
    assert load_settings(model="m", host=host, insecure=True).host == host
    assert load_settings(model="m", host=host, admin_key="k").host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_needs_no_key(host: str) -> None:
    """Every address of it."""
    assert load_settings(model="m", host=host).host == host


@pytest.mark.parametrize("name", ["agent_key", "admin_key"])
def test_an_empty_key_is_no_key(name: str) -> None:
    """`--agent-key "$KEY"` with an unset variable must not open the gateway to the world."""
    with pytest.raises(ConfigError):
        load_settings(model="m", host="0.0.0.0", **{name: ""})


@pytest.mark.parametrize(
    "ill", [{"host": "0.0.0.0"}, {"admin_key": ["hush"]}, {"engine": ["http://user:hush@h:1"]}, {"hush": "hush"}]
)
def test_settings_made_in_code_are_refused_without_what_they_hold(ill: dict[str, object]) -> None:
    """The words of a refusal end in logs: they repeat neither the ill value nor a key beside it."""
    said: dict[str, object] = {"model": "m", "engine_key": "hush"} | ill
    with pytest.raises(ValidationError) as refused:
        Settings(**said)  # type: ignore[arg-type]  # which is the point

    assert "hush'" not in str(refused.value)
    assert "input_value" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    """Neither by `repr` nor in an error about something else."""
    settings = load_settings(model="m", agent_key="hush", admin_key="hush", engine_key="hush")
    assert "hush" not in repr(settings)

    with pytest.raises(ConfigError) as refused:
        load_settings(model="m", agent_key="hush", port=-1)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "proxy-authorization", "Cookie", "x-api-key", "X-Goog-Api-Key", "api_key", "apikey"),
        *("x-auth", "x-litellm-key", "X-Auth-Token", "x-amz-security-token", "x-client-secrets"),
    ],
)
def test_a_header_that_carries_a_key_never_becomes_a_tag(name: str) -> None:
    """Tags are stored and shown; the line says what to do instead."""
    with pytest.raises(ConfigError, match=r"^--tag-header: .*x-gateway-tag"):
        load_settings(model="m", tag_header=("x-task", name))


def test_lists_of_words_come_with_commas_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in them may have spaces, and a flag is one word whatever it holds; names of headers have no case."""
    monkeypatch.setenv("GATEWAY_NOISE_PREFIX", "x-anthropic-billing-header:, Today is")
    monkeypatch.setenv("GATEWAY_TAG_HEADER", "X-Task,x-author")

    settings = load_settings(model="m", noise_key=("a,b",))

    assert settings.noise_prefix == ("x-anthropic-billing-header:", "Today is")
    assert settings.tag_header == ("x-task", "x-author")
    assert settings.noise_key == ("a,b",)


def test_an_empty_list_takes_the_place_of_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a flag and from the environment: an empty prefix would make noise of everything."""
    monkeypatch.setenv("GATEWAY_NOISE_KEY", "")
    settings = load_settings(model="m", noise_prefix=[""], tag_header=())

    assert (settings.noise_prefix, settings.noise_key, settings.tag_header) == ((), (), ())
    assert load_settings(model="m").noise_prefix


def test_a_locked_gateway_keeps_no_sampling_masks() -> None:
    """They would be the whole vocabulary, and engines refuse that."""
    with pytest.raises(ConfigError, match="sampling_mask"):
        load_settings(model="m", sampling="locked", side_arrays=("sampling_mask",))
    assert load_settings(model="m", sampling="locked", side_arrays=("routed_experts",)).sampling == "locked"


def test_each_bound_of_the_pool_is_a_setting_of_its_name_with_its_default() -> None:
    """So that one who makes a pool without settings has the one that is documented."""
    assert {bound.name: bound.default for bound in fields(Bounds)} == {
        bound.name: Settings.model_fields[bound.name].default for bound in fields(Bounds)
    }


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ({"renderer": "remote"}, "http://a:1"),
        ({"renderer": "remote", "render_url": "http://b:2"}, "http://b:2"),
        ({"renderer": "template"}, None),
    ],
)
def test_renders_are_asked_of_the_first_engine_unless_another_is_named(said: dict[str, str], url: str | None) -> None:
    """By its address alone, without the number of its ranks; other renderers ask nobody."""
    settings = load_settings(model="m", engine=["http://a:1#dp=2", "http://c:3"], engine_key="hush", **said)

    assert settings.renderer_options.render_url == url
    assert settings.renderer_options.api_key == "hush"
    assert "hush" not in repr(settings.renderer_options)


@pytest.mark.parametrize("config", ["{", "[1]"])
def test_a_configuration_of_the_renderer_is_a_json_object(config: str) -> None:
    """Found out as the settings are read, whichever command asks."""
    with pytest.raises(ConfigError, match=r"^--renderer-config"):
        load_settings(model="m", renderer_config=config)


def test_how_often_bridges_are_audited_is_a_setting() -> None:
    """From the flag, and by default."""
    assert load_settings(model="m", bridge_audit_interval="7").renderer_options.audit_interval == 7
    assert load_settings(model="m").renderer_options.audit_interval == 50
    with pytest.raises(ConfigError, match=r"^--bridge-audit-interval"):
        load_settings(model="m", bridge_audit_interval="0")
