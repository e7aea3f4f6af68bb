"""Batch norm whose statistics are those of the inputs of all ranks that divide them."""

# n inputs of this rank, N of all, F features

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from refprior._mesh import Mesh

_KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def synchronize(network: nn.Module, mesh: Mesh) -> None:
    """Have all batch norms of a network take the statistics of all ranks of the data axis, in place."""
    for name, module in network.named_children():
        if isinstance(module, _BatchNorm):
            if type(module) not in _KNOWN:
                raise ValueError(
                    f"{type(module).__name__} is a batch norm of your own, whose statistics cannot be those of all "
                    f"ranks: start as many ranks as particles, or a divisor of them"
                )
            setattr(network, name, _synchronized(module, mesh))
        else:
            synchronize(module, mesh)


def _synchronized(module: _BatchNorm, mesh: Mesh) -> _BatchNorm:
    if mesh.device.type == "cuda":
        group = mesh.data_group
        return cast(_BatchNorm, nn.SyncBatchNorm.convert_sync_batchnorm(module, group))
    found = SharedBatchNorm(mesh)
    found.__dict__.update(module.__dict__)  # weights, statistics and settings are the same objects
    found.mesh = mesh
    return found


class SharedBatchNorm(_BatchNorm):
    """(n, F, ...) -> (n, F, ...), where `nn.SyncBatchNorm` refuses: on a CPU, and for second derivatives."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(1)
        self.mesh = mesh

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 (torch's name)
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        self._check_input_dim(input)
        if not self.training and self.running_mean is not None:
            return super().forward(input)
        over, shape = [0, *range(2, input.dim())], [1, -1, *[1] * (input.dim() - 2)]
        own = torch.full((1,), input.numel() / input.shape[1], dtype=input.dtype, device=input.device)
        sums = _total(torch.cat([input.sum(over), own]), self.mesh)
        count = sums[-1].detach()
        if count < 2:
            raise ValueError("batch norm needs more than one value of each feature in training: take larger batches")
        mean = sums[:-1] / count
        centered = input - mean.reshape(shape)
        variance = _total(centered.square().sum(over), self.mesh) / count
        if self.training and self.running_mean is not None:
            self._remember(mean.detach(), variance.detach() * count / (count - 1))
        output = centered * (variance + self.eps).rsqrt().reshape(shape)
        return output * self.weight.reshape(shape) + self.bias.reshape(shape) if self.affine else output

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the statistics, in place: they are views of the stack of all particles."""
        for name, value in {"running_mean": mean, "running_var": variance}.items():
            cast(Tensor, getattr(self, name)).lerp_(value, self._share())
        cast(Tensor, self.num_batches_tracked).add_(1)

    def _share(self) -> float:
        before = int(cast(Tensor, self.num_batches_tracked)) if self.momentum is None else 0
        return 1 / (before + 1) if self.momentum is None else self.momentum


class _Total(torch.autograd.Function):
    """Σ over the data axis; its gradient is summed alike, because what all ranks make of it counts."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, mesh: Mesh) -> Tensor:
        ctx.mesh = mesh
        total = own.clone()
        mesh.sum_over_data(total)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return _total(slopes[0], ctx.mesh), None


def _total(own: Tensor, mesh: Mesh) -> Tensor:
    return _Total.apply(own, mesh)  # type: ignore[no-any-return,no-untyped-call]
