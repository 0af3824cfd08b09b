"""The backend over PrimeIntellect's ``renderers`` (PyPI, 0.1.12 and later)."""

from typing import Any

from pydantic import ValidationError

from gateway.core.types import JsonObject
from gateway.errors import BadRequest, ConfigError, RendererError
from gateway.render.protocol import Renderer, Tokenizer


def family_of(tokenizer: Tokenizer) -> str:
    """The package's name for the family of `tokenizer.name_or_path`; ``default`` for a model it does not know."""
    name: str = _package().base.MODEL_RENDERER_MAP.get(tokenizer.name_or_path, "default")
    return name


def prime_renderer(tokenizer: Tokenizer, *, thinking_retention: str | None, template_kwargs: JsonObject) -> Renderer:
    """The renderer for `tokenizer.name_or_path`; the package's template fallback for a model it does not know.

    `thinking_retention` ``None`` leaves the policy to the renderer's own template.

    Raises:
        BadRequest: the renderer does not take these template arguments.
    """
    package = _package()
    name = family_of(tokenizer)
    options = {} if thinking_retention is None or name == "default" else {"thinking_retention": thinking_retention}
    config = type(package.config_from_name(name))(**options)
    try:
        renderer: Renderer = package.create_renderer(tokenizer, config, chat_template_kwargs=dict(template_kwargs))
    except Exception as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"msg": str(error).partition("\n")[0]}
        if not template_kwargs:
            raise RendererError(f"{name} cannot be made: {first['msg'] or type(error).__name__}") from error
        field = ".".join(map(str, first.get("loc", ())))
        raise BadRequest(f"chat_template_kwargs {field}: {first['msg']}", param="chat_template_kwargs") from None
    return renderer


def _package() -> Any:  # the package is optional and has no public type information
    try:
        import renderers
        import renderers.base
    except ImportError as error:
        raise ConfigError(f"--renderer prime needs {error.name}: pip install 'rollout-gateway[prime]'") from None
    return renderers
