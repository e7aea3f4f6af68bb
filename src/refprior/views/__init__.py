"""Views: functions of (inputs, generator) that draw a transformation for every input of a batch.

A view is any callable ``(n, *shape), torch.Generator -> (n, *shape)``, so your function is one too. It is given the
inputs as they are stored; a view with an attribute ``normalized = True`` is given the inputs of the network.
"""

from refprior.views._ctaugment import CTAugment
from refprior.views._defaults import Learning as Learning
from refprior.views._defaults import View, default_views
from refprior.views._images import Distort, FlipCrop, Shift, Unchanged
from refprior.views._randaugment import RandAugment
from refprior.views._vectors import Corrupt, Dropout, DropTokens, MixFeatures, Noise, SwapNoise

__all__ = [
    "CTAugment",
    "Corrupt",
    "Distort",
    "DropTokens",
    "Dropout",
    "FlipCrop",
    "MixFeatures",
    "Noise",
    "RandAugment",
    "Shift",
    "SwapNoise",
    "Unchanged",
    "View",
    "default_views",
]
