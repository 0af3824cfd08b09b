"""Each backend's renderer for a model, and the first of them that serves."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from gateway.core.types import JsonObject
from gateway.errors import BadRequest, ClientError, ConfigError, EngineError, PackageAbsent, RendererError
from gateway.render import demo, discovery, prime, remote, template, tinker
from gateway.render.chat_template import check_template_kwargs
from gateway.render.lock import lock_of
from gateway.render.options import Resolution, Wish
from gateway.render.protocol import Renderer, Tokenizer

NO_ARGUMENTS: JsonObject = MappingProxyType({})
_BRING_ONE = "bring a renderer with --renderer module:factory"
_NOT_FITTING = "check --model against --model-name"
_NAME_IT = "name the model it was made from with --model-name, or the renderer itself with --renderer-name"


def fixed(renderer: Renderer, template_kwargs: JsonObject) -> Renderer:
    """An object, which cannot be made anew for other template arguments."""
    if template_kwargs:
        raise BadRequest("this gateway's renderer takes no chat_template_kwargs", param="chat_template_kwargs")
    return renderer


@contextmanager
def working(chosen: Resolution, model: str, template_kwargs: JsonObject = NO_ARGUMENTS) -> Iterator[None]:
    """A place at start where the renderer has to work: it is a fault of the configuration if it does not.

    Where there are template arguments, what is refused is the fault of whoever gave them.
    """
    try:
        yield
    except (ClientError, EngineError, RendererError) as error:
        if template_kwargs and isinstance(error, ClientError):
            raise
        cause = str(error.__cause__ or "").partition("\n")[0]
        reason = error.message if cause in error.message else f"{error.message}: {cause}"
        at_fault = "start that server, or correct --render-url" if isinstance(error, EngineError) else _NOT_FITTING
        raise ConfigError(
            f"--renderer {chosen.backend} ({chosen.name}) does not work for {model!r}: {reason}; {at_fault}, or choose "
            "another with --renderer"
        ) from error


def _auto(wish: Wish) -> Resolution:
    """The first that serves."""
    if wish.options.name is not None:
        return _by_name(wish)
    if wish.model == demo.MODEL_NAME or demo.names_demo(wish.tokenizer):
        return _demo(wish)
    try:
        package = prime.installed()
        if package.family_of(wish.model) is not None:
            return _prime(wish)
        nearly = package.nearly(wish.model)
        but = f", which may be meant: it knows {nearly!r}" if nearly else ""
        passed = f"renderers {package.version} does not know {wish.model!r} by its name{but}"
        wish = replace(wish, passed_over=(passed,))
    except PackageAbsent as error:
        wish = replace(wish, passed_over=(f"{error.package} is not installed",))
    try:
        if tinker.name_for(wish.model) is not None:
            return _tinker(wish)
        passed = "nor do tinker-cookbook and Fireworks"
    except PackageAbsent as error:
        passed = f"{error.package} is not installed"
    wish = replace(wish, passed_over=(*wish.passed_over, passed))
    if _has_template(wish):
        return _template(wish)
    why = wish.because("its tokenizer has no chat template")
    raise ConfigError(f"model {wish.model!r} has no renderer ({why}): {_NAME_IT}, {_BRING_ONE}, or --renderer remote")


def _by_name(wish: Wish) -> Resolution:
    """By the renderer's name alone: prime's if it has one of that name, else tinker's."""
    name = wish.options.name
    try:
        package = prime.installed()
        if name in package.families:
            return _prime(wish)
        passed = f"renderers {package.version} has no {name!r}"
    except PackageAbsent as error:
        passed = f"{error.package} is not installed"
    try:
        return _tinker(replace(wish, passed_over=(passed,)))
    except PackageAbsent as error:
        raise ConfigError(f"--renderer-name {name}: {passed}, and {error}") from None


def _demo(wish: Wish) -> Resolution:
    if wish.retention == "tool_cycle":
        raise ConfigError("--thinking-retention tool_cycle: the demo's renderer keeps all reasoning")
    if not demo.names_demo(wish.tokenizer):
        raise ConfigError(f"--renderer demo: it is for --model {demo.MODEL_NAME}, and the tokenizer here is another")
    why = wish.because("the tokenizer is the one that comes along")
    return Resolution("demo", demo.MODEL_NAME, why, partial(_demo_renderer, wish.tokenizer))


def _demo_renderer(tokenizer: Tokenizer, template_kwargs: JsonObject) -> Renderer:
    try:
        # A tokenizer of its own: how it treats control tokens in a text is a state, which others must not change
        # while a stream is read on another thread.
        return demo.DemoRenderer(deepcopy(tokenizer), template_kwargs)
    except ValueError as error:
        if not template_kwargs:
            raise RendererError(str(error)) from None
        raise BadRequest(str(error), param="chat_template_kwargs") from None


def _prime(wish: Wish) -> Resolution:
    package, model, named = prime.installed(), wish.model, wish.options.name
    name = named or package.family_of(model)
    if name is None:
        raise ConfigError(
            f"--renderer prime: renderers {package.version} does not know {model!r}: {_NAME_IT} "
            f"({', '.join(package.families)})"
        )
    why = f"--renderer-name {name}" if named else f"renderers {package.version} knows {model!r} by its name"

    def make(template_kwargs: JsonObject) -> Renderer:
        check_template_kwargs(wish.tokenizer, template_kwargs)  # one of them hands on whatever it is given
        return prime.prime_renderer(
            name,
            wish.tokenizer,
            model=model,
            config=wish.fields,
            retention=wish.retention,
            template_kwargs=template_kwargs,
        )

    return Resolution("prime", name, wish.because(why), make)


def _tinker(wish: Wish) -> Resolution:
    model, options = wish.model, wish.options
    retention, name = _whole_policy(wish, "tinker"), options.name or tinker.name_for(model)
    if name is None:
        raise ConfigError(f"--renderer tinker: neither tinker-cookbook nor Fireworks knows {model!r}: {_NAME_IT}")

    def make(_: JsonObject) -> Renderer:
        return tinker.TinkerRenderer(
            name,
            wish.tokenizer,
            model=model,
            image_processor=options.image_processor,
            retention=retention,
            audit_interval=options.audit_interval,
            recollection=options.recollection(),
        )

    why = f"--renderer-name {name}" if options.name else f"the cookbooks' list has {model!r}"
    chosen = Resolution("tinker", name, wish.because(why), make)
    with working(chosen, model):  # now, since without its package another may serve
        return replace(chosen, make=partial(fixed, make({})))


def _template(wish: Wish) -> Resolution:
    if not _has_template(wish):
        raise ConfigError(f"--renderer template: the tokenizer of {wish.model!r} has no chat template; {_BRING_ONE}")
    retention = _whole_policy(wish, "template")

    def make(template_kwargs: JsonObject) -> Renderer:
        answers = _answers(wish, template_kwargs)
        return template.TemplateRenderer(
            wish.tokenizer,
            template_kwargs,
            retention=retention,
            audit_interval=wish.options.audit_interval,
            answers=answers,
            recollection=wish.options.recollection(),
        )

    return Resolution("template", wish.model, wish.because("the tokenizer has a chat template"), make)


def _remote(wish: Wish) -> Resolution:
    url, options = wish.options.render_url, wish.options
    if url is None:
        raise ConfigError("--renderer remote: name the vLLM server to ask with --render-url, or an --engine")
    retention = _whole_policy(wish, "remote")

    def make(template_kwargs: JsonObject) -> Renderer:
        answers = _answers(wish, template_kwargs)
        return remote.RemoteRenderer(
            url,
            wish.tokenizer,
            template_kwargs,
            retention=retention,
            audit_interval=options.audit_interval,
            answers=answers,
            recollection=options.recollection(),
            api_key=options.api_key,
        )

    return Resolution("remote", url, wish.because("--renderer remote"), make)


def _answers(wish: Wish, template_kwargs: JsonObject) -> discovery.AnswerFormat:
    """How answers are read under some template arguments, which a caller chooses while the gateway runs."""
    check_template_kwargs(wish.tokenizer, template_kwargs)
    try:
        with lock_of(wish.tokenizer):
            return discovery.answer_format(wish.tokenizer, wish.options.tool_format, template_kwargs)
    except ConfigError as error:
        if not template_kwargs:
            raise
        raise BadRequest(str(error), param="chat_template_kwargs") from None


def _whole_policy(wish: Wish, backend: str) -> str | None:
    """The retention of a backend whose bridges keep all reasoning, or what the template keeps."""
    if wish.retention == "tool_cycle":
        raise ConfigError(
            f"--thinking-retention tool_cycle: prime's renderers alone can tell; for {backend} say template or all"
        )
    return wish.retention


def _has_template(wish: Wish) -> bool:
    return bool(getattr(wish.tokenizer, "chat_template", None))


BACKENDS: Mapping[str, Callable[[Wish], Resolution]] = MappingProxyType(
    {"auto": _auto, "prime": _prime, "tinker": _tinker, "template": _template, "remote": _remote, "demo": _demo}
)
