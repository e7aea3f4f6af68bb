"""Several processes that train one run: a grid of ranks, with particles along one axis and inputs along the other.

Only the networks are divided. Every rank draws the same batch and computes the whole loss from the outputs of all
ranks. Its own block of them, (K / P, B / D, C), carries its gradient. In one process everything here does nothing.
"""

# K particles on P ranks, B inputs on D ranks, C classes

import atexit
import hashlib
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from refprior import _process
from refprior._checks import whole_number
from refprior._process import LostRankError
from refprior._words import in_short

__all__ = [
    "ALONE",
    "LostRankError",
    "Mesh",
    "free_memory",
    "joined",
    "plain",
    "replicating",
    "synchronize_batch_norm",
    "usable_device",
]

TIMEOUT = "REFPRIOR_TIMEOUT"  # seconds to wait for the answer of another rank
_PATIENCE = 300.0  # the default of it
_BLOCK = 32 << 20  # bytes per message between two ranks
_APART = 7919  # difference between the seeds of two ranks
_KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
T = TypeVar("T")


@dataclass
class Traffic:
    """The exchanged data: calls, bytes that this rank received, and seconds that it spent, waiting included."""

    calls: int = 0
    received: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Mesh:
    """A grid of P × D ranks. Neighbors hold the same particles and divide the inputs, which causes most traffic."""

    particle: int = 1  # P
    data: int = 1  # D
    rank: int = 0
    axes: DeviceMesh | None = None
    traffic: Traffic = field(default_factory=Traffic)

    def __deepcopy__(self, memo: object) -> "Mesh":
        return self

    @property
    def size(self) -> int:
        return self.particle * self.data

    @property
    def main(self) -> bool:
        """Whether this rank writes files and logs."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """The device of tensors that ranks exchange."""
        cuda = self.axes is not None and self.axes.device_type == "cuda"
        return torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")

    def block(self, count: int) -> slice:
        """Return the particles of this rank."""
        size = count // self.particle
        first = self.rank // self.data * size
        return slice(first, first + size)

    def rows(self, count: int) -> slice:
        """Return the inputs of this rank. Fewer inputs than ranks are not divided: every rank computes all of them."""
        if count < self.data:
            return slice(0, count)
        size, more = divmod(count, self.data)
        place = self.rank % self.data
        first = place * size + min(place, more)
        return slice(first, first + size + (place < more))

    def whole(self, own: Tensor, rows: int, last: bool = False) -> Tensor:
        """Gather the outputs of all ranks; those of this rank carry their gradient: (K / P, b, ...) -> (K, B, ...).

        With `last`, the inputs are the last dimension in memory as in one process, so that sums are rounded the same
        way.
        """
        return own if self.size == 1 else _Whole.apply(own, self, rows, last)  # type: ignore[no-untyped-call]

    def gather(self, own: Tensor, rows: int, last: bool = False) -> Tensor:
        """Gather the outputs of all ranks without gradient, as `whole`."""
        if own.dtype == torch.bool:  # which gloo does not know
            return self.gather(own.view(torch.uint8), rows, last).view(torch.bool)
        block = (own.detach().mT if last else own.detach()).contiguous()
        axis, most = 2 if last else 1, -(-rows // self.data)
        short = most - block.shape[axis] if rows >= self.data else 0
        if short:
            block = torch.cat([block, block.narrow(axis, 0, short)], axis)
        found = block.new_empty(self.size, *block.shape)
        self._timed(found.nbytes - block.nbytes, dist.all_gather, list(found.unbind()), block)
        found = found.unflatten(0, (self.particle, self.data))  # (P, D, K / P, ...)
        if rows < self.data:
            found = found[:, 0].flatten(0, 1)
        elif rows % self.data:
            pieces = (found[:, d].flatten(0, 1) for d in range(self.data))
            sizes = [rows // self.data + (d < rows % self.data) for d in range(self.data)]
            found = torch.cat([p.narrow(axis, 0, n) for p, n in zip(pieces, sizes, strict=True)], axis)
        else:
            found = found.movedim(1, axis + 1).flatten(axis + 1, axis + 2).flatten(0, 1)
        return found.mT if last else found

    def sharded(self, own: Tensor) -> Tensor:
        """Return the particles of all ranks as one DTensor of which each rank holds its own: (K / P, ...) -> (K, ...).

        Ranks then exchange only sums over particles.
        """
        from torch.distributed.tensor import DTensor, Shard  # here: it takes long to import, and few runs need it

        return DTensor.from_local(own, self._particle_axis, [Shard(0)], run_check=False)

    def shard(self, whole: Tensor) -> Tensor:
        """Shard a tensor that all ranks hold whole: (K, ...) -> (K, ...)."""
        from torch.distributed.tensor import DTensor, Replicate, Shard

        same = DTensor.from_local(whole, self._particle_axis, [Replicate()], run_check=False)
        return same.redistribute(placements=[Shard(0)])

    @property
    def _particle_axis(self) -> DeviceMesh:
        assert self.axes is not None
        return self.axes["particle"]

    def broadcast_tensor(self, value: Tensor) -> Tensor:
        """Return the first rank's tensor of the same shape."""
        if self.size == 1:
            return value
        value = value.detach().clone().contiguous()
        self._timed(value.nbytes, dist.broadcast, value, 0)
        return value

    def sum_over_data(self, *tensors: Tensor) -> None:
        """Sum tensors over the ranks with the same particles, in place."""
        if self.data == 1:
            return
        group, whole = self.data_group, [tensor.contiguous() for tensor in tensors]
        received = 2 * (self.data - 1) / self.data * sum(tensor.nbytes for tensor in whole)

        def add() -> None:
            for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in whole]:
                if work is not None:
                    work.wait()

        self._timed(received, add)
        for tensor, total in zip(tensors, whole, strict=True):
            if tensor is not total:
                tensor.copy_(total)

    def largest(self, *numbers: float) -> list[float]:
        """Return the maximum of each number over all ranks."""
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        self._timed(2 * values.nbytes, dist.all_reduce, values, dist.ReduceOp.MAX)
        return values.tolist()

    def any(self, happened: bool) -> bool:
        """Return whether a condition holds on any rank."""
        return self.largest(happened)[0] > 0

    def broadcast(self, value: T) -> T:
        """Return the first rank's value, plain numbers and text."""
        return self.gather_objects(value if self.main else None)[0] if self.size > 1 else value

    def gather_objects(self, value: object) -> list[Any]:
        """Return the values of all ranks, plain numbers and text."""
        if self.size == 1:
            return [value]
        text = msgspec.json.encode(value)
        size = int(self.largest(len(text) + 8)[0])
        own = torch.frombuffer(bytearray(len(text).to_bytes(8, "big") + text).ljust(size), dtype=torch.uint8)
        found = torch.empty(self.size, size, dtype=torch.uint8, device=self.device)
        self._timed(found.nbytes, dist.all_gather, list(found.unbind()), own.to(self.device))
        said = (bytes(row.tolist()) for row in found.cpu())
        return [msgspec.json.decode(row[8 : 8 + int.from_bytes(row[:8], "big")]) for row in said]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raise an error of any rank on all ranks. Ranks must not exchange anything inside."""
        if self.size == 1:
            yield
            return
        error: Exception | None = None
        try:
            yield
        except Exception as caught:
            error = caught
        kinds = {"ValueError": ValueError, "OSError": OSError}
        said = next(kind for kind in (*kinds, "") if not kind or isinstance(error, kinds[kind]))
        found = self.gather_objects(None if error is None else [said, in_short(error)])
        first = next((rank for rank, answer in enumerate(found) if answer is not None), None)
        if error is not None and (first == self.rank or found[first or 0] == found[self.rank]):
            raise error
        if first is not None:
            raise kinds.get(found[first][0], RuntimeError)(f"rank {first}: {found[first][1]}")

    def check_same(self, what: str, value: object) -> None:
        """Raise a ValueError if ranks have different values."""
        said = self.gather_objects(hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest())
        other = next((rank for rank, answer in enumerate(said) if answer != said[0]), None)
        if other is not None:
            raise ValueError(f"rank {other} has {what} other than rank 0: all ranks must train the same run")

    def blocks(self, own: Tensor) -> Iterator[Tensor]:
        """Yield a stack of all particles on the first rank, in order and in blocks of a few megabytes.

        All ranks must iterate; those that hold a part send it. (K / P, ...) -> flat pieces of (K, ...).
        """
        flat = own.detach().reshape(-1)
        step = max(1, _BLOCK // own.element_size())
        for place in range(self.particle):
            source = place * self.data
            for first in range(0, len(flat), step):
                piece = flat[first : first + step]
                if source and self.rank == source:
                    self._timed(0, dist.send, piece.to(self.device).contiguous(), 0)
                elif source and self.main:
                    piece = torch.empty_like(piece, device=self.device)
                    self._timed(piece.nbytes, dist.recv, piece, source)
                yield piece

    @contextmanager
    def own_draws(self) -> Iterator[None]:
        """Give the random draws of networks inside (dropout) a different seed per rank; draws outside stay the same."""
        if self.size == 1:
            yield
            return
        cuda = self.device.type == "cuda"
        generator = torch.cuda.default_generators[self.device.index] if cuda else torch.default_generator
        before = generator.get_state()
        seed = int(torch.randint(1 << 62, (), generator=generator, device=self.device))
        after = generator.get_state()
        generator.manual_seed(seed + _APART * self.rank)
        fresh = generator.get_state()
        try:
            yield
        finally:
            drew = not generator.get_state().equal(fresh)
            generator.set_state(after if drew else before)

    @contextmanager
    def first_rank_logs(self) -> Iterator[None]:
        """Suppress log messages on all ranks but the first."""
        log = logging.getLogger("refprior")
        if self.main:
            yield
            return
        log.addFilter(_nothing)
        try:
            yield
        finally:
            log.removeFilter(_nothing)

    @property
    def data_group(self) -> dist.ProcessGroup | None:
        """The ranks with the same particles."""
        return None if self.axes is None else self.axes.get_group("data")

    def _timed(self, received: float, exchange: Callable[..., object], *arguments: object) -> None:
        """Exchange something and record its cost; raise LostRankError if another rank is gone."""
        started = time.perf_counter()
        try:
            exchange(*arguments)
        except RuntimeError as error:
            raise LostRankError(
                f"rank {self.rank} lost another rank, which ended or did not answer in time ({in_short(error)}): the "
                "same command resumes from the last checkpoint"
            ) from error
        self.traffic.calls += 1
        self.traffic.received += received
        self.traffic.seconds += time.perf_counter() - started


ALONE = Mesh()


def replicating(sharded: bool) -> AbstractContextManager[None]:
    """Let replicated ordinary tensors mix with sharded ones inside; do nothing unless there are sharded ones."""
    if not sharded:
        return nullcontext()
    from torch.distributed.tensor.experimental import implicit_replication

    return implicit_replication()


def plain(value: Tensor) -> Tensor:
    """Return an ordinary tensor: all of a sharded one."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


class _Whole(torch.autograd.Function):
    """Outputs of all ranks; the gradient is that of this rank's own."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, mesh: Mesh, rows: int, last: bool) -> Tensor:
        found = mesh.gather(own, rows, last)
        ctx.place = mesh.block(len(found)), mesh.rows(rows)
        ctx.counts = rows >= mesh.data or mesh.rank % mesh.data == 0  # inputs that are not divided count once
        return found

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
        own = slopes[0][ctx.place]
        return own if ctx.counts else torch.zeros_like(own), None, None, None


def usable_device(name: torch.device | str) -> torch.device:
    """Return the device of that name if this machine has it. Several processes on one machine take one GPU each."""
    try:
        device = torch.device(name)
        if str(device) == "cuda" and _process.world() > 1:
            device = torch.device("cuda", _process.local_rank())
        torch.ones(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise ValueError(f"device {str(name)!r} cannot be used here: {in_short(error)}") from None
    return device


def free_memory(device: torch.device) -> int | None:
    """Return the bytes of a CUDA device that this process can still take; None for memory of the machine."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def joined(particles: int, device: torch.device, particle_ranks: int | None = None) -> Mesh:
    """Return the mesh of a run: the ranks of torchrun or of an existing process group, or `ALONE` in one process."""
    if not dist.is_available() or not (dist.is_initialized() or _process.world() > 1):
        if particle_ranks not in (None, 1):
            raise ValueError(f"particle_ranks={particle_ranks}, but this is one process: start it with torchrun")
        return ALONE
    if not dist.is_initialized():
        _start(device)
    return made(dist.get_world_size(), dist.get_rank(), particles, device.type, particle_ranks)


def made(ranks: int, rank: int, particles: int, device: str, particle_ranks: int | None = None) -> Mesh:
    """P = gcd(ranks, K) unless it is given; the data axis takes the rest."""
    if ranks == 1:
        return ALONE
    wanted = math.gcd(ranks, particles) if particle_ranks is None else particle_ranks
    whole_number("particle_ranks", wanted, at_least=1)
    if ranks % wanted or particles % wanted:
        raise ValueError(
            f"particle_ranks={wanted} does not divide {ranks} ranks and {particles} particles: take a divisor of both, "
            f"such as {math.gcd(ranks, particles)}"
        )
    shape = (wanted, ranks // wanted)
    return Mesh(*shape, rank, init_device_mesh(device, shape, mesh_dim_names=("particle", "data")))


def timeout() -> float:
    """Return the seconds after which a rank that does not answer counts as lost."""
    text = os.environ.get(TIMEOUT, "")
    try:
        return float(text) if text else _PATIENCE
    except ValueError:
        raise ValueError(f"{TIMEOUT} must be a number of seconds, got {text!r}") from None


def _start(device: torch.device) -> None:
    """Meet the other processes of the launcher."""
    limit = timedelta(seconds=timeout())
    try:
        store, rank, size = next(rendezvous("env://", timeout=limit))
        # A launcher that starts ranks again may keep its store, and in it the addresses of those that are gone.
        store = PrefixStore(f"refprior/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        if device.type == "cuda":
            torch.cuda.set_device(device)
            dist.init_process_group("nccl", store=store, rank=rank, world_size=size, timeout=limit, device_id=device)
        else:
            dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    except RuntimeError as error:
        message = f"rank {_process.rank()} cannot reach the others ({in_short(error)}){_why_unreachable()}"
        raise LostRankError(message) from error
    atexit.register(_leave)


def _why_unreachable() -> str:
    """Explain an address of this machine that no other machine can reach; gloo takes that of the machine's name."""
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        address = "nothing"
    if os.environ.get("GLOO_SOCKET_IFNAME") or not address.startswith(("127.", "nothing")):
        return ""
    return (
        f"; {name} resolves to {address}, where other machines cannot reach it: set GLOO_SOCKET_IFNAME to the network "
        "interface between the machines, such as eth0"
    )


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _nothing(record: logging.LogRecord) -> bool:
    return False


def synchronize_batch_norm(network: nn.Module, mesh: Mesh) -> None:
    """Make all batch norms of a network use the statistics of all ranks of the data axis, in place."""
    for name, module in network.named_children():
        if isinstance(module, _BatchNorm):
            if type(module) not in _KNOWN:
                raise ValueError(
                    f"the custom batch norm {type(module).__name__} cannot share its statistics among ranks: start as "
                    "many ranks as particles, or a divisor of them"
                )
            if mesh.device.type == "cuda":
                shared = nn.SyncBatchNorm.convert_sync_batchnorm(module, mesh.data_group)
            else:
                shared = SharedBatchNorm(mesh)
                shared.__dict__.update(module.__dict__)  # weights, statistics and settings are the same objects
                shared.mesh = mesh
            setattr(network, name, shared)
        else:
            synchronize_batch_norm(module, mesh)


class SharedBatchNorm(_BatchNorm):
    """Batch norm over all ranks where `nn.SyncBatchNorm` has none: on CPUs and for second derivatives.

    n inputs of this rank, F features: (n, F, ...) -> (n, F, ...).
    """

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
            raise ValueError("batch norm needs more than one value per feature in training: use larger batches")
        mean = sums[:-1] / count
        centered = input - mean.reshape(shape)
        variance = _total(centered.square().sum(over), self.mesh) / count
        if self.training and self.running_mean is not None:
            self._remember(mean.detach(), variance.detach() * count / (count - 1))
        output = centered * (variance + self.eps).rsqrt().reshape(shape)
        return output * self.weight.reshape(shape) + self.bias.reshape(shape) if self.affine else output

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Update the statistics in place: they are views of the stack of all particles."""
        batches = cast(Tensor, self.num_batches_tracked)
        share = 1 / (int(batches) + 1) if self.momentum is None else self.momentum
        for name, value in {"running_mean": mean, "running_var": variance}.items():
            cast(Tensor, getattr(self, name)).lerp_(value, share)
        batches.add_(1)


class _Total(torch.autograd.Function):
    """The sum over the data axis; its gradient is summed too, because all ranks use the sum."""

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
