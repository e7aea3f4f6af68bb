"""Contact sheets: images and their views on one picture, for a person to look at."""

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from refprior.data.task import Task
from refprior.views.defaults import default_views

WEAK, STRONG = 3, 7  # views of each kind in a row
_GAP = 4
_TITLE = 14  # pixels


def view_sheet(task: Task, rows: int, seed: int) -> Image.Image:
    """A row for each of the first labelled images, class by class: as it is, weak views, strong views."""
    weak, strong = default_views(task.name, task.shape)
    generator = torch.Generator().manual_seed(seed)
    images = task.labelled.images[_by_class(task)][:rows]
    columns = [images, *(weak(images, generator) for _ in range(WEAK))]
    columns += [strong(images, generator) for _ in range(STRONG)]
    titles = {0: "image", 1: "weak", 1 + WEAK: "strong"}
    return _grid(torch.stack(columns, 1), titles)


def image_sheet(task: Task, rows: int) -> Image.Image:
    """A row for each class: its first ten labelled images, then as many test images as are missing."""
    grid = torch.zeros(min(rows, len(task.classes)), 10, *task.shape, dtype=torch.uint8)
    for label, row in enumerate(grid):
        members = [part.images[part.labels == label] for part in (task.labelled, task.test)]
        found = torch.cat(members)[: len(row)]
        row[: len(found)] = found
    return _grid(grid, {0: task.name})


def _by_class(task: Task) -> Tensor:
    """Indices of the labelled images in the order: first of each class, second of each class, …"""
    labels = task.labelled.labels
    rank = torch.stack([(labels[:i] == label).sum() for i, label in enumerate(labels)])
    return (rank * len(task.classes) + labels).argsort()


def _grid(images: Tensor, titles: dict[int, str]) -> Image.Image:
    """(rows, columns, c, h, w) uint8 -> a picture, small images enlarged so that one sees them."""
    rows, columns, _, height, width = images.shape
    enlarge = max(1, 64 // height)
    tall, wide = height * enlarge + _GAP, width * enlarge + _GAP
    picture = Image.new("RGB", (columns * wide + _GAP, rows * tall + _GAP + _TITLE), "white")
    for column, title in titles.items():
        ImageDraw.Draw(picture).text((_GAP + column * wide, 1), title, fill="black")
    for row in range(rows):
        for column in range(columns):
            tile = Image.fromarray(images[row, column].expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy())
            tile = tile.resize((width * enlarge, height * enlarge), Image.Resampling.NEAREST)
            picture.paste(tile, (_GAP + column * wide, _TITLE + _GAP + row * tall))
    return picture
