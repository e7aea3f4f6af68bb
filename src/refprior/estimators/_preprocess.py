"""Inputs and labels of the estimators: arrays validated by scikit-learn, and default parts of a recipe for them."""

# n inputs of D numbers, J components

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from refprior._checks import whole_number
from refprior._words import in_short
from refprior.data import (
    Columns,
    Identity,
    Joined,
    NeighborMeans,
    Normalizer,
    PrincipalComponents,
    QuantileBins,
    Standardize,
    Task,
    TreeLeaves,
    fingerprints,
)
from refprior.data.files import column_of
from refprior.networks import Linear, SmallCNN
from refprior.views import Shift, View, default_views

log = logging.getLogger("refprior")
Inputs = Standardize | PrincipalComponents | QuantileBins | TreeLeaves | NeighborMeans | Joined | Identity
COMPONENTS = 128
_DENSE = 2**26  # bytes up to which sparse rows are made dense
_BLOCK = 1024  # rows that are dense at a time
_SCALED = 10_000  # rows from which scales are estimated
_UNITS = 1000.0  # ratio of the spreads of two features above which a warning is logged
UNLABELED = -1
_DOUBTFUL = ("-1", "nan", "<NA>", "")  # missing values that were converted to text


def checked(estimator: Any, X: object, *, reset: bool) -> Any:
    """Validate X with scikit-learn, with names and number of features: an array (n, *shape) or sparse rows (n, D).

    A data frame with text, dates or missing cells is prepared by `Columns`, which `reset` fits.
    """
    if reset:
        estimator.preparation_ = Columns.fit(X) if _is_mixed(X) else None
    columns = getattr(estimator, "preparation_", None)
    if columns is not None:
        if not hasattr(X, "columns"):
            raise ValueError("X must be a data frame with the columns of the training")
        if reset:
            estimator.feature_names_in_ = np.array([str(name) for name in X.columns], object)
            estimator.n_features_in_ = len(X.columns)
        return columns(X)
    X = side_by_side(X)
    try:
        found = validate_data(
            estimator, X, reset=reset, accept_sparse="csr", allow_nd=True, ensure_min_samples=2 if reset else 1
        )
    except (np.exceptions.DTypePromotionError, RuntimeError) as error:  # from dates, and from tensors with gradients
        raise ValueError(f"X must be numeric: {in_short(error)}") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(f"X must be numeric, got dtype {found.dtype}")
    if found.ndim not in (2, 4):
        remedy = ": use X[:, None]" if found.ndim == 3 else ""
        raise ValueError(f"X is {found.shape}, expected (n, features) or (n, channels, height, width){remedy}")
    return found


def _is_mixed(X: Any) -> bool:
    """Return whether X is a data frame with a column that is no number, or with missing cells."""
    if not (hasattr(X, "columns") and hasattr(X, "to_numpy")):
        return False
    columns = [column_of(X[name]) for name in X.columns]
    return any(column.dtype == object or bool(np.isnan(column).any()) for column in columns)


def spaces(X: object) -> tuple[int, ...]:
    """Return the number of columns of each feature space, if X is a list of several, and nothing otherwise."""
    shapes: list[tuple[int, ...]] = [getattr(x, "shape", ()) for x in X] if isinstance(X, list | tuple) else []
    return tuple(shape[1] for shape in shapes) if shapes and all(len(shape) == 2 for shape in shapes) else ()


def in_each_space(widths: tuple[int, ...], make: Callable[[int], Inputs]) -> Inputs:
    """Return a transform for each feature space, given its width; of a single space, the transform itself."""
    parts = tuple(map(make, widths))
    return parts[0] if len(parts) == 1 else Joined(parts, widths)


def side_by_side(X: Any) -> Any:
    """Join a list of feature spaces (n, D_1), (n, D_2), … to (n, D_1 + D_2 + …); leave everything else as it is."""
    if not spaces(X):
        return X
    check_consistent_length(*X)
    if any(is_sparse(part) for part in X):
        return sparse.hstack(X, format="csr")
    return np.concatenate([np.asarray(part) for part in X], axis=1)


def as_trained(estimator: Any, X: object) -> Any:
    """Validate X for a fitted estimator and convert it to the dtype of the training inputs."""
    check_is_fitted(estimator, "run_")
    X = side_by_side(X)
    shape, trained = getattr(X, "shape", ()), estimator.run_.data.shape
    if 4 in (len(shape), len(trained) + 1) and len(shape) != len(trained) + 1:
        expected = trained if len(trained) > 1 else (estimator.n_features_in_,)
        raise ValueError(
            f"X has shape {tuple(shape)}, the training inputs had shape (n, {', '.join(map(str, expected))})"
        )
    rows = checked(estimator, X, reset=False)
    if rows.ndim > 2 or estimator.run_.data.dtype == "int64":
        return rows
    return rows.astype(np.float32) if is_sparse(rows) else as_numbers(rows, tokens=False)


@dataclass(frozen=True)
class AsFitted:
    """Inputs with a given normalizer: particles that continue must see inputs as before."""

    normalizer: Normalizer

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Return the given normalizer."""
        return self.normalizer


def prepared(
    rows: Any, inputs: Inputs | None, seed: int, fitted: Normalizer | None = None
) -> tuple[np.ndarray, Inputs, Normalizer | None]:
    """Return the values to train on, the transformation of inputs, and the projection of large sparse rows, if any.

    `fitted` is that projection, if it is known already.
    """
    if not isinstance(inputs, Inputs | None):
        raise ValueError(f"inputs must be a transform of refprior.data such as PrincipalComponents(…), got {inputs!r}")
    default: Inputs = Standardize()
    if rows.ndim == 2:  # the first principal components on a common scale
        default = PrincipalComponents(min(COMPONENTS, rows.shape[1]), whitening=0, scaled="all")
    if too_large(rows):
        projection = fitted or fitted_projection(rows, inputs or default, seed)
        return projected(rows, projection), Identity(), projection
    rows = rows.toarray() if is_sparse(rows) else rows
    values = as_numbers(rows, tokens=isinstance(inputs, Identity))
    if values.ndim == 2 and values.dtype == np.float32:
        warn_of_scales(rows, units=inputs is None)
    return values, inputs or default, None


def row_fingerprints(rows: Any) -> Tensor:
    """Return the fingerprints of rows as float32, block by block: (n, *shape) -> (n,)."""
    blocks = (rows[start : start + _BLOCK] for start in range(0, max(1, rows.shape[0]), _BLOCK))
    return torch.cat([fingerprints(torch.from_numpy(as_numbers(block, tokens=False)).float()) for block in blocks])


def is_sparse(rows: Any) -> bool:
    """Return whether rows are sparse; scipy's own test narrows their type too far."""
    return bool(sparse.issparse(rows))


def too_large(rows: Any) -> bool:
    """Return whether rows are sparse and would take too much memory as an array."""
    return is_sparse(rows) and 4 * rows.shape[0] * rows.shape[1] > _DENSE


def as_numbers(rows: Any, tokens: bool) -> np.ndarray:
    """Convert to int64 for token ids, uint8 for pixels, and float32 otherwise: (n, *shape) -> (n, *shape)."""
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
    """Fit the projection of sparse rows (n, D) to components, axes (D, J), without making all rows dense."""
    if not isinstance(wanted, PrincipalComponents) or wanted.whitening or wanted.unit_length or wanted.standardize:
        raise ValueError(f"large sparse X needs inputs=PrincipalComponents(…, whitening=0), got {wanted}")
    count = min(wanted.count, *(size - 1 for size in rows.shape))
    try:
        found = PCA(count, svd_solver="arpack", random_state=seed % 2**31).fit(rows)
    except RuntimeError as error:
        raise ValueError(f"sparse X has no principal components, are all rows equal? ({in_short(error)})") from None
    variance = found.explained_variance_.mean() if wanted.scaled == "all" else found.explained_variance_[0]
    axes = found.components_.T * (wanted.scale / np.sqrt(variance))  # (D, J)
    return Normalizer(_floats(found.mean_), axes=_floats(axes))


def projected(rows: object, projection: Normalizer) -> np.ndarray:
    """Project sparse rows onto components: (n, D) -> (n, J)."""
    if projection.axes is None or projection.shortest is not None:
        raise ValueError(
            "large sparse X needs principal components, and the previous fit had none: set warm_start=False"
        )
    mean, axes = projection.mean.double().numpy(), projection.axes.double().numpy()
    return np.asarray(rows @ axes - mean @ axes, np.float32)


def suitable_views(views: object, task: Task, inputs: Inputs) -> tuple[View, View]:
    """Return the weak and the strong view: the user's or the defaults.

    Defaults are noise for vectors, dropped tokens, and small motions without mirroring for images. Float images have
    no known range: they are shifted and get noise.
    """
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


def batch_size(name: str, wanted: object, there: int) -> int:
    """Return the requested inputs per step, at most all."""
    return min(whole_number(name, wanted, at_least=1), there)


def network_maker(network: object, inputs: Inputs, shape: tuple[int, ...], classes: int) -> Callable[[], nn.Module]:
    """Return a function that makes a network: the user's, which may take `shape` and `classes`, or the default."""
    shape = shape if isinstance(inputs, Standardize | Identity) else (inputs.count,)  # of the network's inputs
    if network is None:
        network = Linear if len(shape) == 1 else SmallCNN
    if not callable(network) or isinstance(network, nn.Module):
        raise ValueError(
            f"network must be a function that returns a new network, got {network!r}: see refprior.networks"
        )
    names = inspect.signature(network).parameters
    if "shape" in names and "classes" in names:
        return partial(network, shape=shape, classes=classes)
    return network


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Draw the seed of a recipe as scikit-learn does."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def warn_of_scales(X: np.ndarray, units: bool) -> None:
    """Warn if float32 cannot resolve the values of a feature, or, with `units`, if small features hardly count."""
    some = X[:: 1 + len(X) // _SCALED].astype(np.float64)
    center, spread = np.abs(some.mean(0)), some.std(0)
    varies = (spread > 1e-12 * center) & (spread > 2.0**-23 * spread.max())  # less is rounding, or a dead feature
    lost = varies & (spread < 2.0**-20 * center)
    if lost.any():
        feature = int(np.argmax(lost))
        log.warning(
            "feature %d of X is near %.3g with a spread of %.2g, which float32 cannot resolve: put a StandardScaler "
            "before the estimator",
            feature,
            center[feature],
            spread[feature],
        )
    elif units and varies.any() and spread[varies].max() > _UNITS * spread[varies].min():
        log.warning(
            "the spread of the features of X ranges from %.2g to %.2g, and small ones hardly count: if they have "
            "different units, put a StandardScaler before the estimator",
            spread[varies].min(),
            spread[varies].max(),
        )


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


def encoded(y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes in order, and the class index of each row, −1 if unlabeled: (n,) -> (C,), (n,)."""
    values = _array(y)
    known = _labeled(values)
    if values.dtype.kind == "i" and not known.all() and set(values[known].tolist()) == {1}:
        log.warning(
            "y contains only -1 and 1: both are treated as classes; "
            "−1 marks unlabeled rows only if there are other labels"
        )
        known = np.ones(len(values), dtype=bool)
    doubtful = [text for text in _DOUBTFUL if values.dtype.kind in "OU" and (values[known] == text).any()]
    if doubtful:
        raise ValueError(
            f"y has the text {doubtful[0]!r} among its labels: use None for unlabeled rows, or rename the class"
        )
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("Input y contains infinity.")
    if known.any():
        check_classification_targets(_of_one_kind(values[known]))
    classes, codes = np.unique(_of_one_kind(values[known]), return_inverse=True)
    numbers = np.full(len(values), UNLABELED, np.int64)
    numbers[known] = codes
    return classes, numbers


def labels_of(y: ArrayLike, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels in y and which rows have one; −1 is a label if it is a class: (n,), (C,) -> (m,), (n,) bool."""
    values = _array(y)
    rows = _labeled(values)
    if values.dtype.kind == "i":
        rows |= np.isin(values, classes)
    return _of_one_kind(values[rows]), rows


def _labeled(values: np.ndarray) -> np.ndarray:
    """Return which rows have a label: (n,) -> (n,) bool."""
    if values.dtype.kind == "O":
        return np.array([not _missing(value) for value in values], dtype=bool)
    if values.dtype.kind == "f":
        return np.asarray(~np.isnan(values) & (values != UNLABELED))
    if values.dtype.kind == "i":
        return np.asarray(values != UNLABELED, dtype=bool)
    return np.ones(len(values), dtype=bool)


def _missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    if isinstance(value, float | np.floating) and np.isnan(value):
        return True
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(value == UNLABELED)


def _of_one_kind(values: np.ndarray) -> np.ndarray:
    """Convert labels that are objects to names, numbers or booleans, which can be ordered."""
    if values.dtype.kind != "O":
        return values
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1:
        raise ValueError(f"labels must be all names or all numbers, got {' and '.join(sorted(kinds))}")
    return np.array(values.tolist())


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "str"
    return "number" if isinstance(value, bool | int | float | np.number | np.bool_) else type(value).__name__


def _array(y: ArrayLike) -> np.ndarray:
    """Convert labels to an array; missing values of mixed lists, pandas and polars stay missing: (n,)."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple) and any(isinstance(value, str) for value in y):
        return np.array(y, dtype=object)
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind == "f" and "int" in str(getattr(y, "dtype", "")).lower():
        values = np.array(list(y), dtype=object)  # type: ignore[arg-type]  # integers with missing values
    return np.asarray(column_or_1d(values, warn=True))
