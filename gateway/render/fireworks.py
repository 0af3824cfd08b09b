"""The renderers of Fireworks' training cookbook, which are tinker-cookbook's once they are registered.

The cookbook comes from git only and brings a package with the plain name of ``training``; to import its
``training.renderer`` registers what it has. So nothing is imported before a renderer is asked for that only it has.
"""

from gateway.render.package import imported

_REMEDY = "install github.com/fw-ai/cookbook (its folder must be on the import path)"


def register(name: str) -> None:
    """Have the cookbook register its renderers, since `name` is one of them.

    Raises:
        PackageAbsent: the cookbook is not installed.
        ConfigError: it is, and cannot be imported.
    """
    called = f"Fireworks' cookbook, which has the renderer {name!r},"
    imported("training.renderer", called=called, remedy=_REMEDY)
