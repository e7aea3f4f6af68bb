"""K networks as one module: the particles that carry the prior of rem:ba_particles.

The weights of all particles are stacked along a first dimension of size K, so that one optimizer, one EMA and one
file hold them all. A loop over particles and one vectorized call give the same numbers up to rounding.
`execution="auto"` chooses the faster one as measured by `benchmarks/particles.py`: a loop for convolutional networks (a
vectorized convolution is a grouped one, which is slow on CPUs), one vectorized call for every other network that
`torch.vmap` can run.

Linear layers and elementwise activations at the start of a sequence, which is all of an MLP, keep the examples as the
last dimension in memory: the first layer of all particles is one matrix product (K·H, D) × (D, B), and no later layer
copies or transposes. This makes thousands of particles affordable.
"""

# K particles, B examples, C classes, H hidden units, D inputs

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from refprior._checks import one_of
from refprior._mesh import ALONE, Mesh, synchronize_batch_norm
from refprior._recomputing import recomputed
from refprior._words import in_short

__all__ = ["Execution", "NotLogitsError", "Particles"]

log = logging.getLogger("refprior")

LARGE = 3000  # smallest number of particles whose predictions are sharded
Execution = Literal["auto", "vectorized", "loop", "recomputed"]
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_ELEMENTWISE = (nn.Hardtanh, nn.Tanh, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Identity)


class NotLogitsError(ValueError):
    """A network returned something other than a tensor of logits.

    Examples
    --------
    >>> from refprior.particles import NotLogitsError
    >>> issubclass(NotLogitsError, ValueError)
    True
    """


class Particles(nn.Module):
    """K independently initialized copies of a network, as one module.

    The particles carry the prior of rem:ba_particles. Calling the module maps inputs (B, ...) to log-probabilities
    (K, B, C).

    Parameters
    ----------
    make : callable
        Function that returns a new network at each call. A network maps inputs (B, ...) to logits (B, C).
    count : int
        K, the number of particles.
    seed : int, default: 0
        Seed of the initial weights. The global generator keeps its state.
    execution : {"auto", "loop", "vectorized", "recomputed"}, default: "auto"
        "loop" runs one network after another, "vectorized" all at once by `torch.vmap`. "auto" chooses the faster one,
        and the loop for networks that vmap cannot run. "recomputed" is the loop with about 1/K of the memory: the
        backward pass computes each network again instead of storing the activations of all. A `WideResNet` stores its
        two late stages, for two thirds of the time and half of the memory.
    mesh : Mesh, default: one process
        The ranks among which the particles are divided. `network` then holds the particles of this rank, and all ranks
        must make the same calls.

    Examples
    --------
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
            synchronize_batch_norm(self.network, mesh)
            execution = execution if execution == "recomputed" else "loop"  # vmap cannot exchange statistics
        self.prior_logits = nn.Parameter(torch.zeros(count))
        self.execution = _fastest(self.network) if execution == "auto" else execution
        self._untried = {True, False} if execution == "auto" else set[bool]()  # in training, in evaluation

    @property
    def log_prior(self) -> Tensor:
        """log π(w_k), (K,)."""
        return self.prior_logits.log_softmax(0)

    def log_prior_of(self, log_p: Tensor) -> Tensor:
        """Return log π(w_k) without gradient, sharded if the predictions are.

        Parameters
        ----------
        log_p : Tensor
            Predictions of `forward`.

        Returns
        -------
        Tensor
            log π(w_k), (K,).
        """
        log_prior = self.log_prior.detach()
        return self.mesh.shard(log_prior) if hasattr(log_p, "full_tensor") else log_prior

    def forward(self, x: Tensor, *, sharded: bool = False) -> Tensor:
        """Predict with every particle.

        Parameters
        ----------
        x : Tensor
            Inputs, (B, ...).
        sharded : bool, default: False
            Return one DTensor of which each rank holds its own particles (see `worth_sharding`), instead of an ordinary
            tensor that every rank holds whole.

        Returns
        -------
        Tensor
            log p(y | x, w_k), (K, B, C).
        """
        return self._combined(self._call(self.network, x), x.shape[0], sharded)

    def aside(self, x: Tensor, *, as_in: "Particles | None" = None, sharded: bool = False) -> Tensor:
        """Predict with every particle without updating batch norm statistics.

        Parameters
        ----------
        x : Tensor
            Inputs, (B, ...).
        as_in : Particles, optional
            Particles of the same kind from which each layer takes its mode, training or evaluation. By default these
            particles.
        sharded : bool, default: False
            Return one DTensor of which each rank holds its own particles (see `worth_sharding`), instead of an ordinary
            tensor that every rank holds whole.

        Returns
        -------
        Tensor
            log p(y | x, w_k), (K, B, C).
        """
        with _modes_of(self.network, (as_in or self).network):
            return self._combined(self._call(self.network, x, trace=False), x.shape[0], sharded)

    def each(self, x: Tensor, *, sharded: bool = False) -> Tensor:
        """Predict separate inputs for every particle, without updating batch norm statistics.

        Parameters
        ----------
        x : Tensor
            Inputs x_k of every particle, (K, B, ...).
        sharded : bool, default: False
            Return one DTensor of which each rank holds its own particles (see `worth_sharding`), instead of an ordinary
            tensor that every rank holds whole.

        Returns
        -------
        Tensor
            log p(y | x_k, w_k), (K, B, C).
        """
        own = x[self.mesh.block(self.count)]
        return self._combined(self._call(self.network, own, own=True, trace=False), x.shape[1], sharded)

    def features(self, x: Tensor) -> Tensor:
        """Compute the inputs of every particle's output layer.

        Parameters
        ----------
        x : Tensor
            Inputs, (B, ...).

        Returns
        -------
        Tensor
            Features, (K, B, F).
        """
        below = _without_layer(self.network, output_layer(self.network).split("."))
        return self.mesh.whole(self._call(below, x).contiguous(), x.shape[0])

    def particle(self, k: int) -> nn.Module:
        """Return one particle of this rank as an ordinary module with its own weights.

        Parameters
        ----------
        k : int
            Its index.

        Returns
        -------
        nn.Module
            A network that maps inputs (B, ...) to logits (B, C).
        """
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
        """Run all particles of this rank on its share of the inputs: (B, ...) -> (K, B, outputs).

        With `own`, each particle has its own inputs, (K, B, ...). With `trace`, updates of buffers stay.
        """
        if self.mesh.size == 1:
            return self._run(network, x, own, trace)
        count = x.shape[1] if own else x.shape[0]
        if count < self.mesh.data and network.training and normalizes_batches(network):
            raise ValueError(
                f"batch norm cannot divide a batch of {count} inputs among {self.mesh.data} ranks: use larger "
                "batches or more particle_ranks"
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
        """Make the first vectorized call; switch to the loop if vmap cannot run the network (an LSTM, an `if`)."""
        drawn, cuda = torch.get_rng_state(), torch.cuda.get_rng_state(x.device) if x.is_cuda else None
        try:
            outputs = _vectorized(network, x, own, trace)
        except (RuntimeError, NotImplementedError) as error:
            torch.set_rng_state(drawn)
            if cuda is not None:
                torch.cuda.set_rng_state(cuda, x.device)
            # What is wrong with the network itself is said here.
            outputs = _loop(network, self._inputs(x, own), trace)
            self.execution = "loop"
            log.warning(
                "particles run one after another, because torch.vmap cannot run their network (%s); "
                "set execution='loop' to silence this warning",
                in_short(error),
            )
        self._untried.discard(network.training)
        return outputs

    @property
    def worth_sharding(self) -> bool:
        """Whether ranks should exchange sums over particles instead of predictions, which are much larger."""
        return self.count >= LARGE and self.mesh.particle > 1 and self.mesh.data == 1

    def shard(self, mesh: Mesh) -> "Particles":
        """Return the particles of this rank, from particles that are all present.

        Parameters
        ----------
        mesh : Mesh
            The ranks among which the particles are divided.

        Returns
        -------
        Particles
            A copy of this rank's particles; these particles themselves if there is one rank.
        """
        if mesh.size == 1:
            return self
        part = deepcopy(self)
        part.mesh = mesh
        _replace_tensors(part.network, lambda name: self._state()[name][mesh.block(self.count)].clone())
        return part

    def all_parameters(self) -> Mapping[str, Tensor]:
        """Return the weights of all particles by name.

        Returns
        -------
        mapping of str to Tensor
            Weights, (K, ...) each. Those of this rank carry their gradient; others are fetched on access.
        """
        own = dict(self.network.named_parameters())
        return own if self.mesh.size == 1 else _OfAll(own, self.mesh)

    def sum_gradients(self) -> None:
        """Sum the gradients of ranks that divide the inputs.

        The gradient of the prior is complete on every rank, because each computes the whole loss.
        """
        if self.mesh.data > 1:
            self.mesh.sum_over_data(*(p.grad for p in self.network.parameters() if p.grad is not None))

    def _inputs(self, x: Tensor, own: bool) -> Sequence[Tensor]:
        """Return the inputs of each particle of this rank."""
        return x.unbind() if own else [x] * (self.count // self.mesh.particle)

    def _state(self) -> dict[str, Tensor]:
        return dict(_tensors_of(self.network))


class _OfAll(Mapping[str, Tensor]):
    """The weights of all ranks, fetched on access; ranks that divide the inputs count once."""

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
    """Return the name of the last linear layer, in the order in which the network's modules were registered."""
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear) and name]
    if not linear:
        raise ValueError("the network has no output layer to replace: it needs a linear layer inside")
    return str(linear[-1])


def convolves(network: nn.Module) -> bool:
    """Return whether a network has convolutions."""
    return any(isinstance(module, _CONVOLUTIONS) for module in network.modules())


def normalizes_batches(network: nn.Module) -> bool:
    """Return whether a network has batch norms, in which the inputs of a batch depend on each other."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())


def _loop(network: nn.Module, inputs: Sequence[Tensor], trace: bool) -> Tensor:
    """Run one network after another, each on its own inputs: K of (B, ...) -> (K, B, outputs)."""
    # One unbind has one gradient, where K slices would have K of the size of all particles. What it gives are
    # views: batch norm's in-place updates of its statistics reach the stacked buffers.
    places = [(*place, _buffer_or_copy(place[-1], trace).unbind()) for place in _places_of(network)]
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
    """Run the loop, and store for the backward pass only what the last network computes.

    Of the other networks it stores what they mark as worth it (`keep_activations`), and computes the rest again, one
    network at a time. Only the first pass writes into buffers.
    """
    state = {name: tensor.unbind() for name, tensor in _passed(network, trace).items()}
    *others, last = ({n: t[k] for n, t in state.items()} for k in range(len(inputs)))
    outputs = [recomputed(_first_with_trace(network), own, x) for own, x in zip(others, inputs, strict=False)]
    return torch.stack([*outputs, _call(network, last, inputs[-1])])


def _first_with_trace(network: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """Return a call of a network that writes into its buffers the first time, and into copies later."""
    again = False

    def call(state: dict[str, Tensor], x: Tensor) -> Tensor:
        nonlocal again
        own = {n: t.clone() if again and not t.requires_grad else t for n, t in state.items()}
        again = True
        return _call(network, own, x)

    return call


def _vectorized(network: nn.Module, x: Tensor, own: bool, trace: bool) -> Tensor:
    layers, rest = ([], network) if own else _leading_layers(network, x)
    if layers:
        x = _batch_last(layers, x)
    if rest is None:
        return x
    dims = (0, 0 if layers or own else None)
    call = torch.vmap(lambda state, x: _call(rest, state, x), in_dims=dims, randomness="different")
    return call(_passed(rest, trace), x)


def _passed(network: nn.Module, trace: bool) -> dict[str, Tensor]:
    """Return the tensors of a pass by name; without a trace, buffers are copied."""
    return {name: _buffer_or_copy(tensor, trace) for name, tensor in _tensors_of(network)}


def _buffer_or_copy(tensor: Tensor, trace: bool) -> Tensor:
    return tensor if trace or isinstance(tensor, nn.Parameter) else tensor.clone()


@contextmanager
def _modes_of(network: nn.Module, other: nn.Module) -> Iterator[None]:
    """Set every layer to the mode, training or evaluation, of that of another network, temporarily."""
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
        kind = type(outputs).__name__
        raise NotLogitsError(f"the network must return logits, a tensor (n, classes), it returned a {kind}")
    return outputs


def _fastest(network: nn.Module) -> Execution:
    """Return the faster execution by kind of network, as benchmarks/particles.py measured it."""
    if convolves(network):
        return "loop"
    cumulative = (m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.momentum is None)
    return "loop" if any(cumulative) else "vectorized"  # vmap cannot read the number of batches


def _make_networks(make: Callable[[], nn.Module], count: int, block: slice) -> list[nn.Module]:
    """Make the networks of this rank; all `count` are drawn, so that each is the same on any number of ranks."""
    if count < 1:
        raise ValueError(f"count must be at least 1 particle, got {count}")
    if isinstance(make, nn.Module):
        raise ValueError("make must be a function that returns a new network at each call, got a network")
    try:
        made = (make() for _ in range(count))
        networks = [network for k, network in enumerate(made) if block.start <= k < block.stop]
    except (TypeError, RuntimeError, MemoryError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise ValueError("the network does not fit into memory: make it smaller") from None
        raise ValueError(f"the network cannot be made: {error}") from error
    if not all(isinstance(network, nn.Module) for network in networks):
        raise ValueError(f"make must return an nn.Module, it returned a {type(networks[0]).__name__}")
    if len({id(network) for network in networks}) < len(networks):
        raise ValueError("make must return a new network at each call, it returned the same one again")
    shapes = [{name: tensor.shape for name, tensor in _tensors_of(network)} for network in networks]
    if any(other != shapes[0] for other in shapes):
        raise ValueError("make must return networks of equal shapes, it returned different ones")
    return networks


def _tensors_of(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers by name: a shared module once, a tied weight under all its names."""
    for path, module in network.named_modules():
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            yield f"{path}.{name}".lstrip("."), tensor


def _places_of(network: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """Yield the dictionaries in which layers store their tensors, with the names there."""
    for module in network.modules():
        for slots in (module._parameters, module._buffers):
            yield from ((slots, name, tensor) for name, tensor in slots.items() if tensor is not None)


def _replace_tensors(network: nn.Module, new: Callable[[str], Tensor]) -> None:
    """Replace all parameters and buffers; tied tensors stay tied."""
    known: dict[int, Tensor] = {}
    for path, old in list(_tensors_of(network)):
        if id(old) not in known:
            value = new(path).detach()
            known[id(old)] = nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value
        module, _, name = path.rpartition(".")
        setattr(network.get_submodule(module), name, known[id(old)])


def _stacked(networks: list[nn.Module]) -> nn.Module:
    """Stack networks to one module whose parameters and buffers have a first dimension over them."""
    states = [dict(_tensors_of(network)) for network in networks]
    all_of_them = deepcopy(networks[0])
    _replace_tensors(all_of_them, lambda name: torch.stack([state[name].detach() for state in states]))
    return all_of_them


def _without_layer(network: nn.Module, path: Sequence[str]) -> nn.Module:
    """Return the network without one layer, whose input passes through; the other layers are shared."""
    if not path:
        return nn.Identity()
    copied = copy(network)
    copied._modules = {**network._modules, path[0]: _without_layer(network.get_submodule(path[0]), path[1:])}
    return copied


def _leading_layers(network: nn.Module, x: Tensor) -> tuple[list[nn.Module], nn.Module | None]:
    """Split a sequence into its leading linear layers and activations on flat inputs, and the rest (None if empty)."""
    if type(network) is nn.Linear and x.dim() == 2 and not _has_hooks(network):
        return [network], None
    if type(network).forward is not nn.Sequential.forward or _has_hooks(network):
        return [], network
    layers = list(network._modules.items())
    first = layers[0][1] if layers else None
    flattens = isinstance(first, nn.Flatten) and (first.start_dim, first.end_dim) == (1, -1)
    named = layers[flattens:]
    count = next((i for i, (_, layer) in enumerate(named) if not _is_plain(layer)), len(named))
    if not (flattens or x.dim() == 2) or not count or type(named[0][1]) is not nn.Linear:
        return [], network
    rest = OrderedDict((name, layer) for name, layer in named[count:] if layer is not None)
    return [layer for _, layer in named[:count] if layer is not None], nn.Sequential(rest) if rest else None


def _is_plain(layer: nn.Module | None) -> bool:
    # The exact type: a subclass may do anything, and a parametrized layer is one.
    return type(layer) in (nn.Linear, *_ELEMENTWISE) and layer is not None and not _has_hooks(layer)


def _has_hooks(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


def _batch_last(layers: list[nn.Module], x: Tensor) -> Tensor:
    """Run layers of all particles on shared inputs: (B, ...) -> (K, B, H), in memory (K, H, B).

    With the examples last in memory, the first layer is one matrix product and nothing is transposed.
    """
    first = cast(nn.Linear, layers[0])
    shape = (len(first.weight), -1, len(x))  # (K, H, B)
    weight, columns, bias = first.weight.flatten(0, 1), x.flatten(1).T, cast(Tensor | None, first.bias)
    hidden = weight @ columns if bias is None else torch.addmm(bias.reshape(-1, 1), weight, columns)  # (K·H, B)
    for before, layer in pairwise(layers):
        if isinstance(layer, nn.Linear):
            hidden, bias = hidden.reshape(shape), cast(Tensor | None, layer.bias)
            if bias is None:
                hidden = torch.bmm(layer.weight, hidden)
            else:
                hidden = torch.baddbmm(bias.unsqueeze(-1), layer.weight, hidden)
        elif type(layer) is nn.Hardtanh and isinstance(before, nn.Linear):
            # In place: nothing else needs what a linear layer gives, and memory that is new is slower than arithmetic.
            hidden = F.hardtanh_(hidden, layer.min_val, layer.max_val)
        else:
            hidden = layer(hidden)
    return hidden.reshape(shape).transpose(1, 2)
