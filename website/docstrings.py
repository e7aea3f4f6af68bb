"""Validate the docstrings of the public interface with numpydoc.

    python -m website.docstrings             # every public object
    python -m website.docstrings exact data  # those of some packages

Every name in the `__all__` of a public package, and every public method of a public class, has a summary of one line,
its parameters and its return value. Every class and function also has an example, which the tests run. A method that
overrides a documented one inherits its docstring.
"""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module

from numpydoc.validate import validate

PACKAGES = (
    "exact",
    "exact.models",
    "data",
    "methods",
    "posterior",
    "recipes",
    "report",
    "training",
    "views",
    "networks",
    "information",
    "losses",
    "geometry",
    "variational",
    "labeling",
    "particles",
    "estimators",
    "explore",
)
CHECKS = {
    "GL08": "no docstring",
    "SS03": "the summary does not end with a period",
    "SS06": "the summary is longer than one line",
    "PR01": "parameters are not documented",
    "PR02": "unknown parameters are documented",
    "PR03": "parameters are in another order",
    "RT01": "no Returns section",
    "EX01": "no Examples section",
}


def public_objects(package: str) -> Iterator[str]:
    """Yield the dotted names of a package's public classes and functions, and of their public methods."""
    door = import_module(f"refprior.{package}")
    for name in door.__all__:
        thing = getattr(door, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield f"{door.__name__}:{name}"
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for member, value in vars(thing).items():
                inherited = not value.__doc__ and any(hasattr(base, member) for base in thing.__mro__[1:])
                method = inspect.isfunction(value) or isinstance(value, classmethod)
                if not member.startswith("_") and method and not inherited:
                    yield f"{door.__name__}:{name}.{member}"


def complaints(name: str) -> list[str]:
    """Return what numpydoc finds wrong with one object."""
    module, _, path = name.partition(":")
    found = validate(f"{getattr(import_module(module), path.split('.')[0]).__module__}.{path}")
    return [
        f"{code}: {text}" for code, text in found["errors"] if code in CHECKS and ("." not in path or code != "EX01")
    ]


def main() -> None:
    """Print every complaint and exit with 1 if there is one."""
    names = [name for package in sys.argv[1:] or PACKAGES for name in public_objects(package)]
    wrong = {name: found for name in names if (found := complaints(name))}
    for name, found in wrong.items():
        for line in found:
            print(f"{name.replace(':', '.')}: {line}")
    print(f"{len(names) - len(wrong)} of {len(names)} public docstrings are valid")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
