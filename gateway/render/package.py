"""Optional packages, which a backend needs: imported when it is asked for, told apart whether absent or broken."""

from importlib import import_module
from types import ModuleType

from gateway.errors import ConfigError, PackageAbsent


def imported(module: str, *, called: str, remedy: str) -> ModuleType:
    """A module of a package that errors call `called`; a folder of that plain name without the module is not it.

    Raises:
        PackageAbsent: the package is not installed, for which there is a `remedy`.
        ConfigError: it is, and cannot be imported, however it fails.
    """
    try:
        return import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise PackageAbsent(called, remedy) from None
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(
            f"{called} is installed and cannot be imported ({reason}): {remedy}, or choose another renderer with "
            "--renderer"
        ) from error
