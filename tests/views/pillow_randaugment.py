"""RandAugment of the FixMatch line, one image after the other, with Pillow: an oracle for the batched one."""

from collections.abc import Callable

from PIL import Image, ImageEnhance, ImageOps

Picture = Image.Image


def _affine(picture: Picture, *row: float) -> Picture:
    return picture.transform(picture.size, Image.Transform.AFFINE, row)


def _enhance(kind: Callable[[Picture], ImageEnhance._Enhance], picture: Picture, tenths: int) -> Picture:
    return kind(picture).enhance(tenths / 10 * 0.9 + 0.05)


# operation -> (picture, level in tenths, sign) -> picture
OPERATIONS: dict[str, Callable[[Picture, int, int], Picture]] = {
    "identity": lambda p, v, s: p,
    "autocontrast": lambda p, v, s: ImageOps.autocontrast(p),
    "brightness": lambda p, v, s: _enhance(ImageEnhance.Brightness, p, v),
    "color": lambda p, v, s: _enhance(ImageEnhance.Color, p, v),
    "contrast": lambda p, v, s: _enhance(ImageEnhance.Contrast, p, v),
    "equalize": lambda p, v, s: ImageOps.equalize(p),
    "posterize": lambda p, v, s: ImageOps.posterize(p, int(v * 4 / 10) + 4),
    "sharpness": lambda p, v, s: _enhance(ImageEnhance.Sharpness, p, v),
    "solarize": lambda p, v, s: ImageOps.solarize(p, 256 - int(v * 256 / 10)),
    "rotate": lambda p, v, s: p.rotate(s * int(v * 30 / 10)),
    "shear_x": lambda p, v, s: _affine(p, 1, s * v * 0.3 / 10, 0, 0, 1, 0),
    "shear_y": lambda p, v, s: _affine(p, 1, 0, 0, s * v * 0.3 / 10, 1, 0),
    "translate_x": lambda p, v, s: _affine(p, 1, 0, int(s * v * 0.3 / 10 * p.width), 0, 1, 0),
    "translate_y": lambda p, v, s: _affine(p, 1, 0, 0, 0, 1, int(s * v * 0.3 / 10 * p.height)),
}
