"""A source beside a target."""

import numpy as np
import pytest
import torch

from refprior.data import FewLabels, Task, task_from_arrays


def toy(name: str, names: list[str], level: int, side: int = 4) -> Task:
    classes = len(names)
    images = np.full((3 * classes, 1, side, side), level, np.uint8)
    labels = np.arange(3 * classes) % classes
    return task_from_arrays((images, labels), images, (images, labels), classes=names, name=name)


def test_the_target_gains_the_sources_labels_and_nothing_else_changes() -> None:
    source, target = toy("a", ["cat", "dog"], 10), toy("b", ["car", "bus", "tram"], 30)
    both = target.with_source(source)
    assert both.name == "a-to-b"
    assert both.classes == ("car", "bus", "tram")
    assert both.source_classes == ("cat", "dog")
    assert both.source is source.labeled
    assert both.labeled is target.labeled
    assert both.unlabeled is target.unlabeled


def test_the_sources_images_are_trained_with() -> None:
    both = toy("b", ["car", "bus"], 40).with_source(toy("a", ["cat", "dog"], 10))
    assert [int(part[0, 0, 0, 0]) for part in both.training_inputs] == [40, 40, 10]
    assert [len(part) for part in both.training_inputs] == [6, 6, 6]


def test_a_task_moves_with_its_source() -> None:
    both = toy("b", ["car", "bus"], 40).with_source(toy("a", ["cat", "dog"], 10)).to(torch.device("meta"))
    assert both.source is not None
    assert both.source.inputs.device.type == "meta"


def test_tasks_that_overlap_are_rejected() -> None:
    with pytest.raises(ValueError, match="overlap: 6 of 6 source inputs are in both"):
        toy("b", ["dog", "cow"], 10).with_source(toy("a", ["cat", "dog"], 10))
    with pytest.raises(ValueError, match=r"overlap: \d+ of 40 source inputs are in both"):
        FewLabels("digits", labels=10, validation=60, classes=(2, 3))().with_source(
            FewLabels("digits", labels=40, validation=60, classes=(1, 2))()
        )


def test_tasks_of_numbered_classes_may_have_the_same_numbers() -> None:
    first, second = toy("arrays", ["0", "1"], 10), toy("arrays", ["0", "1"], 20)
    assert second.with_source(first).source_classes == ("0", "1")


def test_a_source_needs_labels() -> None:
    with pytest.raises(ValueError, match="the source task 'digits-1-2' has no labeled inputs"):
        FewLabels("digits", labels=10, classes=(3, 4))().with_source(FewLabels("digits", labels=0, classes=(1, 2))())


def test_images_of_another_shape_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"source inputs are \(1, 5, 5\), labeled \(1, 4, 4\)"):
        toy("b", ["car", "bus"], 30).with_source(toy("a", ["cat", "dog"], 10, side=5))


def test_a_source_in_the_targets_test_part_is_rejected() -> None:
    target = toy("b", ["car", "bus"], 30)
    images, labels = torch.full((4, 1, 4, 4), 99, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    source = task_from_arrays((images, labels), target.unlabeled, (images, labels))
    known = target.labeled.inputs, target.labeled.labels
    hidden = task_from_arrays(known, target.unlabeled, (images, labels))
    with pytest.raises(ValueError, match="overlap: 4 of 4"):
        hidden.with_source(source)
