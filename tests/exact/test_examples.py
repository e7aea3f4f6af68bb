"""Every public object of the exact half has an example in its docstring, and the examples hold."""

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import refprior.exact
from refprior.exact import Channel, DesignSearch, Posterior, PriorComparison, PriorScan, Solution
from refprior.exact.ask import CapacityCurve, JeffreysPrior

# methods of Channel that a user calls; the others are hooks for subclasses, which the class docstring explains
CHANNEL_METHODS = (
    "coordinate",
    "from_function",
    "from_mean",
    "from_scipy",
    "log_likelihood",
    "log_likelihood_of",
    "parameter",
    "repeat",
    "rows",
)
SOLUTION_METHODS = (
    "atoms",
    "evidence",
    "gain",
    "plot",
    "load",
    "posterior",
    "predictive",
    "sample",
    "to_code",
    "to_dict",
)


def public() -> Iterator[tuple[str, Any]]:
    for name in refprior.exact.__all__:
        yield name, getattr(refprior.exact, name)
    for name in refprior.exact.models.__all__:
        yield f"models.{name}", getattr(refprior.exact.models, name)
    methods: list[tuple[type, tuple[str, ...]]] = [
        (Channel, CHANNEL_METHODS),
        (Solution, SOLUTION_METHODS),
        (JeffreysPrior, ("density",)),
    ]
    methods += [(Posterior, ("quantiles", "credible_set", "sample", "plot")), (PriorComparison, ("plot",))]
    methods += [(DesignSearch, ("plot",)), (CapacityCurve, ("plot",)), (PriorScan, ("plot", "to_dict"))]
    for owner, names in methods:
        for name in names:
            yield f"{owner.__name__}.{name}", inspect.getattr_static(owner, name)


def examples(name: str, thing: Any) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", {}, name, None, None)


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*pair, id=pair[0]) for pair in public()])
def test_examples_exist_and_hold(name: str, thing: Any) -> None:
    test = examples(name, thing)
    assert test.examples, f"{name} has no example in its docstring"
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(test, out=report.append)
    assert not failed, "".join(report)
