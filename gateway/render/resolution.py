"""Which renderer serves a model, and why that one.

What is said explicitly comes first: an object, ``module:factory``, a backend, a renderer's name. Left to itself, the
choice is the demo's own, PrimeIntellect's for a model that its package knows by exactly that name, tinker-cookbook's
or Fireworks' where their list has the model, and else the tokenizer's chat template. A package that is not installed
is passed over, which the reason tells; one that is installed and broken is an error that names it.
"""

import importlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.render.backends import BACKENDS, fixed, working
from gateway.render.lock import lock_of
from gateway.render.options import Backend, Options, Resolution, Wish, config_of
from gateway.render.protocol import Renderer, Tokenizer

RETENTIONS = ("all", "tool_cycle", "template")
"""Which reasoning of earlier turns bridges can be asked to keep."""
log = logging.getLogger(__name__)


def resolve(
    model: str,
    tokenizer: Tokenizer,
    *,
    renderer: Renderer | str | None = None,
    renderer_name: str | None = None,
    renderer_config: JsonObject | str | None = None,
    image_processor: object = None,
    template_kwargs: JsonObject | None = None,
    thinking_retention: str | None = None,
    tool_format: str | None = None,
    render_url: str | None = None,
    api_key: str = "",
    audit_interval: int = 50,
) -> Renderer:
    """The renderer that serves `model`, over this very tokenizer; the choice and its reason are logged.

    `renderer` is an object, which is returned as it is, or what ``gateway serve --renderer`` takes; the rest is as
    the settings of the same names. `thinking_retention` ``None`` leaves the policy to the model's template, as
    ``"template"`` does.

    Raises:
        ConfigError: there is none, or an option is ill or is nothing to the one that was chosen.
        BadRequest: it does not take these `template_kwargs`.
    """
    options = Options(
        name=renderer_name,
        config=config_of(renderer_config) if isinstance(renderer_config, str) else renderer_config,
        tool_format=tool_format,
        render_url=render_url,
        api_key=api_key,
        image_processor=image_processor,
        audit_interval=audit_interval,
        recollects=True,
    )
    chosen = resolution_of(
        model, tokenizer, "auto" if renderer is None else renderer, retention=thinking_retention, options=options
    )
    log.info("a renderer was chosen for %s: %s", model, chosen)
    given = template_kwargs or {}
    with working(chosen, model, given), lock_of(tokenizer):
        return chosen.make(given)


def resolution_of(
    model: str, tokenizer: Tokenizer, renderer: Renderer | str, *, retention: str | None, options: Options
) -> Resolution:
    """Which renderer serves `model`.

    Raises:
        ConfigError: there is none, or an option is ill or is nothing to the one that was chosen.
    """
    if retention not in (None, *RETENTIONS):
        raise ConfigError(f"--thinking-retention {retention}: must be one of {', '.join(RETENTIONS)}")
    wish = _named(Wish(model, tokenizer, None if retention == "template" else retention, options))
    if not isinstance(renderer, str):
        chosen = _own(type(renderer).__qualname__, renderer, wish, "it was given")
    elif ":" in renderer:
        chosen = _own(renderer, _from_factory(renderer, tokenizer), wish, f"--renderer {renderer}")
    elif renderer in BACKENDS:
        chosen = BACKENDS[renderer](wish)
    else:
        raise ConfigError(f"--renderer {renderer}: must be {', '.join(BACKENDS)} or module:factory")
    return _heeding(chosen, wish)


def _named(wish: Wish) -> Wish:
    """With the fields of the configuration, whose ``name`` says as much as `Options.name`."""
    options = wish.options
    if options.config is None:
        return wish
    fields = dict(options.config)
    name = fields.pop("name", options.name)
    if not isinstance(name, str | None) or options.name not in (None, name):
        raise ConfigError(
            f"--renderer-config name: {name!r} must be the text that --renderer-name says, or be left out"
        )
    return replace(wish, options=replace(options, name=name), fields=fields)


_HEEDED: Mapping[Backend, frozenset[str]] = MappingProxyType(
    {
        "own": frozenset(),
        "demo": frozenset(),
        "prime": frozenset({"renderer-name", "renderer-config"}),
        "tinker": frozenset({"renderer-name", "image-processor"}),
        "template": frozenset({"tool-format"}),
        "remote": frozenset({"tool-format", "render-url"}),
    }
)
"""Which options are something to a backend."""


def _heeding(chosen: Resolution, wish: Wish) -> Resolution:
    """It, if it heeds all that was said: an option that nobody reads would look as if it was in force."""
    options = wish.options
    said = {
        "renderer-name": options.name,
        "renderer-config": options.config,
        "tool-format": options.tool_format,
        "render-url": options.render_url,
        "image-processor": options.image_processor,
    }
    for option, value in said.items():
        if value is not None and option not in _HEEDED[chosen.backend]:
            heed = [backend for backend, heeded in _HEEDED.items() if option in heeded]
            raise ConfigError(
                f"--{option}: {' and '.join(heed)} {'take' if heed[1:] else 'takes'} it, and the renderer is {chosen}: "
                f"leave it out, or say --renderer {heed[0]}"
            )
    return chosen


def _own(name: str, renderer: object, wish: Wish, why: str) -> Resolution:
    """A renderer that no backend of ours makes, taken at its word about what it keeps."""
    if isinstance(renderer, type) or not isinstance(renderer, Renderer):
        kind = "a class" if isinstance(renderer, type) else type(renderer).__name__
        raise ConfigError(f"--renderer {name}: {kind} is no gateway.render.protocol.Renderer, which has four methods")
    if wish.retention == "tool_cycle" != getattr(renderer, "effective_thinking_retention", None):
        raise ConfigError(f"--thinking-retention tool_cycle: the renderer {name} does not say that it keeps so")
    return Resolution("own", name, why, partial(fixed, renderer))


def _from_factory(spec: str, tokenizer: Tokenizer) -> object:
    module, _, name = spec.partition(":")
    try:
        return getattr(importlib.import_module(module), name)(tokenizer)
    except Exception as error:
        raise ConfigError(f"--renderer {spec}: {type(error).__name__}: {error}") from error
