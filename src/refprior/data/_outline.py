"""What a task will be, without decoding the pictures of a folder: its classes, shape, and the sizes of its parts."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from refprior._kinds import Kind
from refprior.data._few_labels import FewLabels
from refprior.data._read import drawn_to_test
from refprior.data.files import look, survey
from refprior.data.sources import is_folder


class Outline(NamedTuple):
    """What a network, its views and its batches have to fit."""

    classes: int
    shape: tuple[int, ...]  # of one input
    kind: Kind | None
    labeled: int
    pool: int
    measured: bool  # whether there is a test or validation part


def outline(few: FewLabels) -> Outline:
    """The outline of what `few()` gives."""
    return _of_folder(few) if is_folder(few.data) else _of_data(few)


def _of_folder(few: FewLabels) -> Outline:
    found = survey(str(few.data))
    counts = [len(folder.files) for folder in found.part("train")]
    first = look(found.part("train")[0].files[0], few.color)
    members = few.members(len(counts), {}, found.root.name)
    drawn = drawn_to_test(found, few.test)
    each = drawn // len(counts)
    height, width = few.sides or (first.height, first.width)
    shape = (1 if first.gray else 3, height // few.shrink, width // few.shrink)
    pool = sum(len(folder.files) for folder in found.part("unlabeled"))
    measured = bool(drawn or found.part("test") or found.part("validation"))
    return _counted(few, [counts[m] - each for m in members], pool, shape, None, measured)


def _of_data(few: FewLabels) -> Outline:
    data = few.read()
    counts = torch.bincount(data.train.labels, minlength=len(data.classes)).tolist()
    members = few.members(len(counts), data.groups, data.name)
    first, *sides = data.train.inputs.shape[1:]
    shape = (first, *(side // few.shrink for side in sides))
    pool = len(data.unlabeled) if data.unlabeled is not None else 0
    measured = data.test is not None or data.validation is not None
    return _counted(few, [counts[m] for m in members], pool, shape, data.kind, measured)


def _counted(
    few: FewLabels, counts: Sequence[int], pool: int, shape: tuple[int, ...], kind: Kind | None, measured: bool
) -> Outline:
    known = sum(counts) - few.validation
    labeled = known if few.labels is None else few.labels
    rest = known if few.labeled_in_pool else known - labeled
    return Outline(len(counts), shape, kind, labeled, rest + pool, measured or few.validation > 0)
