"""What the estimators make of inputs: arrays that scikit-learn has checked, and parts of a recipe that suit them."""

# n inputs of D numbers, J components

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from refprior._checks import whole_number
from refprior._words import in_short
from refprior.data import Identity, Normalizer, PrincipalComponents, Standardize, Task
from refprior.networks import Linear, SmallCNN
from refprior.views import Shift, View, default_views

log = logging.getLogger("refprior")
Inputs = Standardize | PrincipalComponents | Identity
COMPONENTS = 128
_DENSE = 2**26  # bytes; sparse rows that need no more are made dense
_BLOCK = 1024  # rows that are dense at a time
_LOOKED_AT = 10_000  # rows whose scales are looked at
_UNITS = 1000.0  # how many times the spread of one feature may be that of another before we say so


def checked(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as scikit-learn checks it, names and number of features too: an array (n, *shape) or sparse rows (n, D)."""
    try:
        found = validate_data(
            estimator, X, reset=reset, accept_sparse="csr", allow_nd=True, ensure_min_samples=2 if reset else 1
        )
    except (np.exceptions.DTypePromotionError, RuntimeError) as error:  # of dates, and of tensors with gradients
        raise ValueError(f"X cannot be taken for numbers: {in_short(error)}") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(f"X cannot be taken for numbers: it is {found.dtype}")
    if found.ndim not in (2, 4):
        remedy = ": use X[:, None]" if found.ndim == 3 else ""
        raise ValueError(f"X is {found.shape}, expected (n, features) or (n, channels, height, width){remedy}")
    return found


def as_trained(estimator: Any, X: Any) -> Any:
    """X for an estimator that is fitted, of the kind of numbers that its networks were trained on."""
    check_is_fitted(estimator, "run_")
    shape, trained = getattr(X, "shape", ()), estimator.run_.data.shape
    if 4 in (len(shape), len(trained) + 1) and len(shape) != len(trained) + 1:
        expected = trained if len(trained) > 1 else (estimator.n_features_in_,)
        raise ValueError(f"X is {tuple(shape)}, and the training had inputs of {tuple(expected)}")
    rows = checked(estimator, X, reset=False)
    if rows.ndim > 2 or estimator.run_.data.dtype == "int64":
        return rows
    return rows.astype(np.float32) if is_sparse(rows) else as_numbers(rows, tokens=False)


@dataclass(frozen=True)
class AsFitted:
    """Inputs as they were fitted before: particles that go on must see what they learned to see."""

    normalizer: Normalizer

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """What is known already."""
        return self.normalizer


def prepared(
    rows: Any, inputs: Inputs | None, seed: int, fitted: Normalizer | None = None
) -> tuple[np.ndarray, Inputs, Normalizer | None]:
    """Values to train on, how a network sees them, and how large sparse rows were projected before, if they were.

    fitted: the projection of large sparse rows, where it is known.
    """
    if not isinstance(inputs, Inputs | None):
        raise ValueError(f"inputs must be Standardize(), PrincipalComponents(…) or Identity(), got {inputs!r}")
    if too_large(rows):
        projection = fitted or fitted_projection(rows, inputs or components(rows.shape[1:]), seed)
        return projected(rows, projection), Identity(), projection
    rows = rows.toarray() if is_sparse(rows) else rows
    values = as_numbers(rows, tokens=isinstance(inputs, Identity))
    if values.ndim == 2 and values.dtype == np.float32:
        warn_of_scales(rows, units=inputs is None)
    default = Standardize() if values.ndim > 2 else components(values.shape[1:])
    return values, inputs or default, None


def digests(rows: Any) -> list[bytes]:
    """What identifies each row by its numbers, of whatever type they are: (n, *shape) -> n digests."""
    found = []
    for start in range(0, rows.shape[0], _BLOCK):
        block = rows[start : start + _BLOCK]
        dense = np.ascontiguousarray(block.toarray() if is_sparse(block) else block, np.float32)
        found += [blake2b(row.tobytes(), digest_size=16).digest() for row in dense]
    return found


def too_large(rows: Any) -> bool:
    """Whether rows are sparse and would take too much memory as an array."""
    return is_sparse(rows) and 4 * rows.shape[0] * rows.shape[1] > _DENSE


def is_sparse(rows: Any) -> bool:
    return bool(sparse.issparse(rows))


def components(shape: tuple[int, ...]) -> PrincipalComponents:
    """What networks see of vectors: the first principal components, with one scale for all."""
    return PrincipalComponents(min(COMPONENTS, *shape), whitening=0, scaled="all")


def as_numbers(rows: Any, tokens: bool) -> np.ndarray:
    """Whole numbers for token ids and pixels of bytes, 32-bit floats for all else: (n, *shape) -> (n, *shape)."""
    dense: np.ndarray = rows.toarray() if is_sparse(rows) else np.asarray(rows)
    if tokens and dense.dtype.kind in "iu":
        return dense.astype(np.int64)
    if dense.ndim > 2 and dense.dtype == np.uint8:
        return dense
    with np.errstate(over="ignore"):
        floats = dense.astype(np.float32)
    if not np.isfinite(floats).all():
        raise ValueError(f"Input X contains a value too large for float32: {np.abs(dense).max():.3g}")
    return floats


def fitted_projection(rows: Any, wanted: Inputs, seed: int) -> Normalizer:
    """What takes sparse rows to their components: of (n, D), axes (D, J). The rows are never dense at once."""
    if not isinstance(wanted, PrincipalComponents) or wanted.whitening or wanted.unit_length or wanted.standardize:
        raise ValueError(f"so many sparse rows take inputs=PrincipalComponents(…, whitening=0) only, got {wanted}")
    count = min(wanted.count, *(size - 1 for size in rows.shape))
    try:
        found = PCA(count, svd_solver="arpack", random_state=seed % 2**31).fit(rows)
    except RuntimeError as error:
        raise ValueError(
            f"the sparse rows of X have no components, are they all the same? ({in_short(error)})"
        ) from None
    variance = found.explained_variance_.mean() if wanted.scaled == "all" else found.explained_variance_[0]
    axes = found.components_.T * (wanted.scale / np.sqrt(variance))  # (D, J)
    return Normalizer(_floats(found.mean_), axes=_floats(axes))


def projected(rows: Any, projection: Normalizer) -> np.ndarray:
    """The components of sparse rows: (n, D) -> (n, J)."""
    if projection.axes is None or projection.shortest is not None:
        raise ValueError("so many sparse rows need principal components, and the fit before had none: warm_start=False")
    mean, axes = projection.mean.double().numpy(), projection.axes.double().numpy()
    return np.asarray(rows @ axes - mean @ axes, np.float32)


def suitable_views(views: Any, task: Task, inputs: Inputs) -> tuple[View, View]:
    """The weak and the strong view: the user's own; or noise for vectors, tokens left out, and small motions, with no
    mirror image, for pictures. Those of floats have no known range, so that they are moved, and have noise."""
    if views is not None:
        if not isinstance(views, tuple | list) or len(views) != 2:
            raise ValueError(f"views must be (weak, strong), got {in_short(views)}")
        return views[0], views[1]
    dtype, shape = task.unlabeled.dtype, task.shape
    if len(shape) != 3:
        return default_views("tokens" if dtype == torch.int64 and isinstance(inputs, Identity) else "vectors", shape)
    if dtype == torch.uint8:
        return default_views("digits", shape)
    return Shift(max(1, min(shape[1:]) // 14)), default_views("vectors", shape)[1]


def batch_size(name: str, wanted: Any, there: int) -> int:
    """As many inputs per step as are wanted, at most all."""
    return min(whole_number(name, wanted, at_least=1), there)


def network_maker(network: Any, inputs: Inputs, shape: tuple[int, ...], classes: int) -> Callable[[], nn.Module]:
    """What makes a network: the user's own, which may take `shape` and `classes`, or what suits the inputs."""
    shape = (inputs.count,) if isinstance(inputs, PrincipalComponents) else shape  # of what the network sees
    if network is None:
        network = Linear if len(shape) == 1 else SmallCNN
    if not callable(network) or isinstance(network, nn.Module):
        raise ValueError(f"network must be a function that makes a network, got {network!r}: see refprior.networks")
    names = inspect.signature(network).parameters
    if "shape" in names and "classes" in names:
        return partial(network, shape=shape, classes=classes)
    return network  # type: ignore[no-any-return]


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """The seed of a recipe, as scikit-learn draws it."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def warn_of_scales(X: np.ndarray, units: bool) -> None:
    """Say so where 32 bits cannot tell the values of a feature apart; and, by units, where small ones hardly count."""
    some = X[:: 1 + len(X) // _LOOKED_AT].astype(np.float64)
    center, spread = np.abs(some.mean(0)), some.std(0)
    varies = spread > 1e-12 * center  # less is rounding
    lost = varies & (spread < 2.0**-20 * center)
    if lost.any():
        feature = int(np.argmax(lost))
        log.warning(
            "feature %d of X is near %.3g with a spread of %.2g, which 32-bit floats do not tell apart: put a "
            "StandardScaler before the estimator",
            feature,
            center[feature],
            spread[feature],
        )
    elif units and varies.any() and spread[varies].max() > _UNITS * spread[varies].min():
        log.warning(
            "the spread of features of X goes from %.2g to %.2g, and small ones hardly count: if they have different "
            "units, put a StandardScaler before the estimator",
            spread[varies].min(),
            spread[varies].max(),
        )


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))
