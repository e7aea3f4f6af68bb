"""Contact sheets: images and their views in one picture."""

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from refprior.views import View

WEAK, STRONG = 3, 7  # views of each kind in a row
ACROSS = 10  # images of a class in a row
_GAP = 4
_TITLE = 14  # pixels


def view_sheet(images: Tensor, weak: View, strong: View, seed: int) -> Image.Image:
    """Draw a row for each image, (n, c, h, w) uint8: unchanged, weak views, strong views."""
    generator = torch.Generator().manual_seed(seed)
    columns = [images, *(weak(images, generator) for _ in range(WEAK))]
    columns += [strong(images, generator) for _ in range(STRONG)]
    return _grid(torch.stack(columns, 1), {0: "image", 1: "weak", 1 + WEAK: "strong"})


def image_sheet(images: Tensor, labels: Tensor, rows: int, title: str) -> Image.Image:
    """Draw a row for each of the first `rows` classes, with its first ten images: (n, c, h, w), (n,)."""
    grid = torch.zeros(min(rows, int(labels.max()) + 1), ACROSS, *images.shape[1:], dtype=torch.uint8)
    for label, row in enumerate(grid):
        found = images[labels == label][:ACROSS]
        row[: len(found)] = found
    return _grid(grid, {0: title})


def in_turn(labels: Tensor) -> Tensor:
    """Return indices in the order: first of each class, second of each class, …"""
    rank = torch.stack([(labels[:i] == label).sum() for i, label in enumerate(labels)])
    return (rank * (int(labels.max()) + 1) + labels).argsort()


def _grid(images: Tensor, titles: dict[int, str]) -> Image.Image:
    """Draw (rows, columns, c, h, w) uint8 as one picture; small images are enlarged."""
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
