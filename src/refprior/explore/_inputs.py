"""One input as the page shows it: a picture where there is something to see, else its first values."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from refprior._kinds import noun

_VALUES = 12  # of an input that is no image
_SMALLEST = 96  # pixels of a picture's longer side: smaller ones are enlarged, their pixels kept sharp


def shown_input(given: Tensor, features: Sequence[str] = ()) -> dict[str, Any]:
    """{"picture": a PNG in an address} or {"values": [[name, value], …], "more": how many are not shown}."""
    values = np.asarray(given.detach().cpu().double() if given.is_floating_point() else given.cpu())
    if noun(values.shape) == "image":
        return {"picture": _picture(values)}
    flat = values.reshape(-1)
    names = features or [f"[{i}]" for i in range(min(_VALUES, len(flat)))]
    pairs = [[names[i], f"{flat[i].item():.4g}"] for i in range(min(_VALUES, len(flat)))]
    return {"values": pairs, "more": len(flat) - len(pairs)}


def _picture(image: np.ndarray) -> str:
    """(1 or 3, height, width) as a PNG: bytes as they are, floats between their extremes."""
    if image.dtype != np.uint8:
        image = 255 * (image - image.min()) / max(float(np.ptp(image)), 1e-12)
    pixels = np.round(image).astype(np.uint8)
    drawn = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, 2))
    factor = max(1, -(-_SMALLEST // max(drawn.size)))
    buffer = io.BytesIO()
    drawn.resize((factor * drawn.width, factor * drawn.height), Image.Resampling.NEAREST).save(buffer, "png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
