"""K networks as one module: the particles that carry the prior of rem:ba_particles.

The weights of all particles are stacked along a first dimension of size K, so that one optimizer, one EMA and one
file hold them all. Two ways of execution give the same numbers to rounding; `benchmarks/particles.py` measures
them, and `execution="auto"` is what it found: a loop for convolutional networks (a vectorized convolution is a
grouped one, which CPUs do slowly), one vectorized call for everything else that `torch.vmap` can run.

Linear layers and elementwise activations at the start of a sequence, which is all of an MLP, keep the examples as the
last dimension in memory: the first layer of all particles is one matrix product (K·H, D) × (D, B), and no later layer
copies or transposes. That is what makes thousands of particles affordable.
"""

# K particles, B examples, C classes, H hidden units, D inputs

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call

from refprior._batch_last import batch_last, leading_layers
from refprior._batch_norm import synchronize
from refprior._checks import one_of
from refprior._mesh import ALONE, Mesh
from refprior._recomputing import recomputed
from refprior._words import in_short

__all__ = ["Execution", "NotLogitsError", "Particles", "convolves", "output_layer"]

log = logging.getLogger("refprior")

LARGE = 3000  # particles from which on predictions are sharded
Execution = Literal["auto", "vectorized", "loop", "recomputed"]
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class NotLogitsError(ValueError):
    """A network returned something else than a tensor.

    >>> from refprior.particles import NotLogitsError
    >>> issubclass(NotLogitsError, ValueError)
    True
    """


class Particles(nn.Module):
    """K independently initialized copies of a network that maps inputs (B, ...) to logits (B, C): rem:ba_particles.

    make: a function that returns a new network each time it is called; `seed` makes its initializations repeatable
    without touching the global generator's state. execution: "loop" runs one network after another, "vectorized" all at
    once by `torch.vmap`, "auto" what is faster, and the loop for networks that vmap cannot run. "recomputed" is the
    loop in less memory, 1/K of it for most networks: the backward pass computes each network again instead of keeping
    what all of them have. A `WideResNet` keeps its two late stages, two thirds of the time and half of the memory.
    mesh: the ranks that share the particles out; `network` then holds those of this rank, and all ranks must be asked
    the same.

    >>> import torch
    >>> import refprior as rp
    >>> particles = rp.Particles(lambda: rp.networks.MLP((1, 8, 8), classes=10), count=4)
    >>> tuple(particles(torch.zeros(2, 1, 8, 8)).shape)  # log-probabilities
    (4, 2, 10)
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        count: int,
        *,
        seed: int = 0,
        execution: Execution = "auto",
        mesh: Mesh = ALONE,
    ) -> None:
        super().__init__()
        one_of("execution", execution, get_args(Execution))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            networks = _make_networks(make, count, mesh.block(count))
        self.count = count
        self.mesh = mesh
        self.network = _stacked(networks)
        if mesh.data > 1 and normalizes_batches(self.network):
            synchronize(self.network, mesh)
            execution = execution if execution == "recomputed" else "loop"  # vmap cannot exchange statistics
        self.prior_logits = nn.Parameter(torch.zeros(count))
        self.execution = _fastest(self.network) if execution == "auto" else execution
        self._untried = {True, False} if execution == "auto" else set[bool]()  # in training, in evaluation

    @property
    def log_prior(self) -> Tensor:
        """log π(w_k): (K,)."""
        return self.prior_logits.log_softmax(0)

    def log_prior_of(self, log_p: Tensor) -> Tensor:
        """log π(w_k) without gradient, sharded if the predictions are: (K,)."""
        log_prior = self.log_prior.detach()
        return self.mesh.shard(log_prior) if hasattr(log_p, "full_tensor") else log_prior

    def forward(self, x: Tensor, *, sharded: bool = False) -> Tensor:
        """log p(y | x, w_k) of every particle: (B, ...) -> (K, B, C).

        sharded: the result is one DTensor of which each rank holds its own particles (`worth_sharding`), instead of an
        ordinary tensor that every rank holds whole.
        """
        return self._combined(self._call(self.network, x), x.shape[0], sharded)

    def aside(self, x: Tensor, *, as_in: "Particles | None" = None, sharded: bool = False) -> Tensor:
        """The same in a pass that leaves no trace: batch norm's statistics stay as they are.

        as_in: particles of the same kind, whose layers say whether they are in training; None: these particles.
        """
        with _modes_of(self.network, (as_in or self).network):
            return self._combined(self._call(self.network, x, trace=False), x.shape[0], sharded)

    def each(self, x: Tensor, *, sharded: bool = False) -> Tensor:
        """log p(y | x_k, w_k) of inputs that every particle has for itself, no trace left: (K, B, ...) -> (K, B, C)."""
        own = x[self.mesh.block(self.count)]
        return self._combined(self._call(self.network, own, own=True, trace=False), x.shape[1], sharded)

    def features(self, x: Tensor) -> Tensor:
        """What the output layer of every particle sees: (B, ...) -> (K, B, F)."""
        below = _without_layer(self.network, output_layer(self.network).split("."))
        return self.mesh.whole(self._call(below, x).contiguous(), x.shape[0])

    def particle(self, k: int) -> nn.Module:
        """Particle k (of this rank's) as an ordinary module with its own weights: (B, ...) -> (B, C) logits."""
        alone = deepcopy(self.network)
        _replace_tensors(alone, lambda name: self._state()[name][k].clone())
        return alone

    def _combined(self, logits: Tensor, rows: int, sharded: bool) -> Tensor:
        """Return log p of all particles and inputs from the logits of this rank's: (K / P, b, C) -> (K, B, C)."""
        logits = logits.float() if logits.element_size() < 4 else logits
        # With the examples last in memory, sums over few classes are many times faster.
        log_p = logits.mT.log_softmax(-2).mT
        return self.mesh.sharded(log_p) if sharded else self.mesh.whole(log_p, rows, last=True)

    def _call(self, network: nn.Module, x: Tensor, own: bool = False, trace: bool = True) -> Tensor:
        """All particles of a stacked network, of this rank, on its share of the inputs: (B, ...) -> (K, B, outputs).

        own: each particle has its own inputs, (K, B, ...). trace: what the pass writes into buffers stays there.
        """
        if self.mesh.size == 1:
            return self._run(network, x, own, trace)
        count = x.shape[1] if own else x.shape[0]
        if count < self.mesh.data and network.training and normalizes_batches(network):
            raise ValueError(
                f"a batch of {count} inputs cannot be divided between {self.mesh.data} ranks, and batch norm would "
                "count each of them several times: take larger batches, or more particle_ranks"
            )
        rows = self.mesh.rows(count)
        with self.mesh.own_draws():
            return self._run(network, x[:, rows] if own else x[rows], own, trace)

    def _run(self, network: nn.Module, x: Tensor, own: bool, trace: bool) -> Tensor:
        # vmap needs weights to vectorize over; the layers before a single linear one have none.
        weights = next(_tensors_of(network), None) is not None
        # Convolutions of inputs that are not shared gain nothing by it, and vmap cannot lay such inputs out anew.
        if self.execution == "recomputed" and torch.is_grad_enabled():
            return _recomputed(network, self._inputs(x, own), trace)
        if self.execution != "vectorized" or not weights or (own and convolves(network)):
            return _loop(network, self._inputs(x, own), trace)
        run = self._try_vectorized if network.training in self._untried else _vectorized
        return run(network, x, own, trace)

    def _try_vectorized(self, network: nn.Module, x: Tensor, own: bool, trace: bool) -> Tensor:
        """The first vectorized call, or the loop from then on if vmap cannot run the network: an LSTM, an `if`."""
        drawn = torch.get_rng_state()
        try:
            outputs = _vectorized(network, x, own, trace)
        except (RuntimeError, NotImplementedError) as error:
            torch.set_rng_state(drawn)
            # What is wrong with the network itself is said here.
            outputs = _loop(network, self._inputs(x, own), trace)
            self.execution = "loop"
            log.warning(
                "particles run one after another, because torch.vmap cannot run their network (%s); "
                "execution='loop' says that it is meant",
                in_short(error),
            )
        self._untried.discard(network.training)
        return outputs

    @property
    def worth_sharding(self) -> bool:
        """Whether ranks should exchange sums over particles instead of predictions, which are far larger."""
        return self.count >= LARGE and self.mesh.particle > 1 and self.mesh.data == 1

    def shared_out(self, mesh: Mesh) -> "Particles":
        """Those of this rank, of particles that are all here."""
        if mesh.size == 1:
            return self
        part = deepcopy(self)
        part.mesh = mesh
        _replace_tensors(part.network, lambda name: self._state()[name][mesh.block(self.count)].clone())
        return part

    def parameters_of_all(self) -> Mapping[str, Tensor]:
        """The weights of all particles by name, (K, ...) each, of which this rank's carry their gradient."""
        own = dict(self.network.named_parameters())
        return own if self.mesh.size == 1 else _OfAll(own, self.mesh)

    def sum_gradients(self) -> None:
        """Add up the gradients of ranks that divide the inputs. The prior's is whole: all compute the whole loss."""
        if self.mesh.data > 1:
            self.mesh.sum_over_data(*(p.grad for p in self.network.parameters() if p.grad is not None))

    def _inputs(self, x: Tensor, own: bool) -> Sequence[Tensor]:
        """One for each particle of this rank."""
        return x.unbind() if own else [x] * (self.count // self.mesh.particle)

    def _state(self) -> dict[str, Tensor]:
        return dict(_tensors_of(self.network))


class _OfAll(Mapping[str, Tensor]):
    """Weights of all ranks, fetched when they are looked at; ranks that divide the inputs count them once."""

    def __init__(self, own: Mapping[str, Tensor], mesh: Mesh) -> None:
        self.own = own
        self.mesh = mesh

    def __getitem__(self, name: str) -> Tensor:
        own = self.own[name]
        # As outputs of fewer inputs than ranks: all have the same, and only one of them gives the gradient.
        return self.mesh.whole(own.unsqueeze(1), 1).squeeze(1)

    def __iter__(self) -> Iterator[str]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


def output_layer(network: nn.Module) -> str:
    """The name of the last linear layer, in the order in which the network's parts were made.

    >>> import refprior as rp
    >>> from refprior.particles import output_layer
    >>> output_layer(rp.networks.MLP((4,), classes=2))
    '3'
    """
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear) and name]
    if not linear:
        raise ValueError("the network has no linear layer above others: there is no output layer to replace")
    return str(linear[-1])


def convolves(network: nn.Module) -> bool:
    """Whether a network has convolutions, which decides how its particles are best computed.

    >>> import refprior as rp
    >>> from refprior.particles import convolves
    >>> convolves(rp.networks.SmallCNN((1, 8, 8), classes=10))
    True
    """
    return any(isinstance(module, _CONVOLUTIONS) for module in network.modules())


def normalizes_batches(network: nn.Module) -> bool:
    """Return whether a network has batch norms, in which the inputs of a batch depend on each other."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())


def _loop(network: nn.Module, inputs: Sequence[Tensor], trace: bool) -> Tensor:
    """One network after another, each on its own inputs: K of (B, ...) -> (K, B, outputs)."""
    # One unbind has one gradient, where K slices would have K of the size of all particles. What it gives are
    # views: batch norm's in-place updates of its statistics reach the stacked buffers.
    places = [(slots, name, stack, _kept(stack, trace).unbind()) for slots, name, stack in _places_of(network)]
    outputs = []
    try:
        # As `functional_call` does, which takes a tenth of a small network's step to find the places again.
        for k, x in enumerate(inputs):
            for slots, name, _, own in places:
                slots[name] = own[k]
            outputs.append(_checked(network(x)))
    finally:
        for slots, name, stack, _ in places:
            slots[name] = stack
    return torch.stack(outputs)


def _recomputed(network: nn.Module, inputs: Sequence[Tensor], trace: bool) -> Tensor:
    """The same, keeping for the backward pass what the last network computes, and of the others what they say is worth
    keeping: it computes the rest again, one network at a time. What a pass writes into buffers is written by the first
    one alone."""
    state = {name: tensor.unbind() for name, tensor in _passed(network, trace).items()}
    *others, last = ({n: t[k] for n, t in state.items()} for k in range(len(inputs)))
    outputs = [recomputed(_first_with_trace(network), own, x) for own, x in zip(others, inputs, strict=False)]
    return torch.stack([*outputs, _call(network, last, inputs[-1])])


def _first_with_trace(network: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """A call of a network whose first time may write into its buffers; later ones write into copies."""
    again = False

    def call(state: dict[str, Tensor], x: Tensor) -> Tensor:
        nonlocal again
        own = {n: t.clone() if again and not t.requires_grad else t for n, t in state.items()}
        again = True
        return _call(network, own, x)

    return call


def _vectorized(network: nn.Module, x: Tensor, own: bool, trace: bool) -> Tensor:
    layers, rest = ([], network) if own else leading_layers(network, x)
    if layers:
        x = batch_last(layers, x)
    if rest is None:
        return x
    dims = (0, 0 if layers or own else None)
    call = torch.vmap(lambda state, x: _call(rest, state, x), in_dims=dims, randomness="different")
    return call(_passed(rest, trace), x)


def _passed(network: nn.Module, trace: bool) -> dict[str, Tensor]:
    """What a pass is given, by place; without a trace it writes into copies of the buffers."""
    return {name: _kept(tensor, trace) for name, tensor in _tensors_of(network)}


def _kept(tensor: Tensor, trace: bool) -> Tensor:
    return tensor if trace or isinstance(tensor, nn.Parameter) else tensor.clone()


@contextmanager
def _modes_of(network: nn.Module, other: nn.Module) -> Iterator[None]:
    """Every layer in training or in evaluation as that of another network of the same kind, for a while."""
    before = [(module, module.training) for module in network.modules()]
    try:
        for (module, _), like in zip(before, other.modules(), strict=True):
            module.training = like.training
        yield
    finally:
        for module, training in before:
            module.training = training


def _call(network: nn.Module, state: dict[str, Tensor], x: Tensor) -> Tensor:
    # `state` names every place, so nothing is left to tie.
    return _checked(functional_call(network, state, (x,), tie_weights=False))


def _checked(outputs: object) -> Tensor:
    if not isinstance(outputs, Tensor):
        raise NotLogitsError(f"the network returns a {type(outputs).__name__}: return logits, a tensor (n, classes)")
    return outputs


def _fastest(network: nn.Module) -> Execution:
    """The faster execution by kind of network, as benchmarks/particles.py measured it."""
    if convolves(network):
        return "loop"
    cumulative = (m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.momentum is None)
    return "loop" if any(cumulative) else "vectorized"  # vmap cannot read the number of batches


def _make_networks(make: Callable[[], nn.Module], count: int, kept: slice) -> list[nn.Module]:
    """Some of `count` new networks of one kind. All are drawn, so that each is the same on any number of ranks."""
    if count < 1:
        raise ValueError(f"need at least one particle, got {count}")
    if isinstance(make, nn.Module):
        raise ValueError("give a function that makes a new network each time, not a network")
    try:
        made = (make() for _ in range(count))
        networks = [network for k, network in enumerate(made) if kept.start <= k < kept.stop]
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the network cannot be made: {error}") from error
    if not all(isinstance(network, nn.Module) for network in networks):
        raise ValueError(f"the function must make a network, an nn.Module; it made a {type(networks[0]).__name__}")
    if len({id(network) for network in networks}) < len(networks):
        raise ValueError("the function must make a new network each time; it returned the same one again")
    shapes = [{name: tensor.shape for name, tensor in _tensors_of(network)} for network in networks]
    if any(other != shapes[0] for other in shapes):
        raise ValueError("the function made networks of different shapes")
    return networks


def _tensors_of(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by their places: a shared module once, a tied weight in all its places."""
    for path, module in network.named_modules():
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            yield f"{path}.{name}".lstrip("."), tensor


def _places_of(network: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """The same, as what a layer keeps its tensors in, and their names there."""
    for module in network.modules():
        for slots in (module._parameters, module._buffers):
            yield from ((slots, name, tensor) for name, tensor in slots.items() if tensor is not None)


def _replace_tensors(network: nn.Module, new: Callable[[str], Tensor]) -> None:
    """Put other values in all places; what was tied stays tied."""
    known: dict[int, Tensor] = {}
    for path, old in list(_tensors_of(network)):
        if id(old) not in known:
            value = new(path).detach()
            known[id(old)] = nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value
        module, _, name = path.rpartition(".")
        setattr(network.get_submodule(module), name, known[id(old)])


def _stacked(networks: list[nn.Module]) -> nn.Module:
    """One module whose parameters and buffers have a first dimension over the networks."""
    states = [dict(_tensors_of(network)) for network in networks]
    all_of_them = deepcopy(networks[0])
    _replace_tensors(all_of_them, lambda name: torch.stack([state[name].detach() for state in states]))
    return all_of_them


def _without_layer(network: nn.Module, path: Sequence[str]) -> nn.Module:
    """The same network, its other layers shared, that hands the input of one layer through."""
    if not path:
        return nn.Identity()
    copied = copy(network)
    copied._modules = {**network._modules, path[0]: _without_layer(network.get_submodule(path[0]), path[1:])}
    return copied
