"""A recipe: everything that determines a run."""

from refprior.training.recipe._optimizer import Optimizer, equalize, is_custom_optimizer, update_average
from refprior.training.recipe._parts import (
    PART_PACKAGES,
    SETTING_PACKAGES,
    USER_MODULE,
    Part,
    alternatives,
    check_depth,
    expected,
    fitting,
    is_plain,
    published,
    put_together,
    signature_hints,
    take_apart,
    to_plain,
)
from refprior.training.recipe._recipe import EPOCH, Head, Recipe, check_handed_in, custom_parts, read_field, read_recipe

__all__ = [
    "EPOCH",
    "PART_PACKAGES",
    "SETTING_PACKAGES",
    "USER_MODULE",
    "Head",
    "Optimizer",
    "Part",
    "Recipe",
    "alternatives",
    "check_depth",
    "check_handed_in",
    "custom_parts",
    "equalize",
    "expected",
    "fitting",
    "is_custom_optimizer",
    "is_plain",
    "published",
    "put_together",
    "read_field",
    "read_recipe",
    "signature_hints",
    "take_apart",
    "to_plain",
    "update_average",
]
