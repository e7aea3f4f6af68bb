"""The fitted preparation of raw inputs, which is part of the predictor: columns of a table, or a network for photos."""

from collections.abc import Mapping
from typing import cast

import msgspec
from torch import Tensor, nn

from refprior._files import Json
from refprior._words import in_short
from refprior.data._backbone import Backbone, BackboneRecord
from refprior.data._columns import Columns

Preparation = Columns | Backbone


def preparation_record(preparation: Preparation | None) -> Json | None:
    """Return what a file holds of a preparation, except for the weights of a backbone."""
    if preparation is None:
        return None
    found = preparation.record() if isinstance(preparation, Backbone) else preparation
    return cast(Json, msgspec.json.decode(msgspec.json.encode(found)))


def read_preparation(
    record: Json | None, weights: Mapping[str, Tensor] | None = None, module: nn.Module | None = None
) -> Preparation | None:
    """Return the preparation of a record; a ValueError for a damaged one. Nothing is imported or computed."""
    if record is None:
        return None
    try:
        found = msgspec.convert(record, Columns | BackboneRecord)
    except msgspec.ValidationError as error:
        raise ValueError(f"the preparation of the inputs is damaged: {in_short(error)}") from None
    return found.backbone(weights, module) if isinstance(found, BackboneRecord) else found
