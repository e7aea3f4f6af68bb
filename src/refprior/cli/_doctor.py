"""`refprior doctor`: what this machine has, and whether a device computes what the CPU computes."""

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, NamedTuple

from refprior._process import available_memory
from refprior._words import in_bytes, in_short
from refprior.cli._ending import FailedError
from refprior.cli._options import Device
from refprior.cli._tables import print_table

if TYPE_CHECKING:
    import torch

    from refprior.data import Task
    from refprior.training import Recipe

PACKAGES = ("refprior", "torch", "numpy", "scipy", "safetensors")
STEPS = 3
EXACT, CLOSE, HALF = 0.0, 1e-3, 0.05  # largest relative difference of the loss


class _InterruptedError(Exception):
    """A run was interrupted on purpose."""


class Check(NamedTuple):
    """One kind of step on a device."""

    name: str
    recipe: "Recipe"
    limit: float


def doctor(*, device: Device | None = None) -> None:
    """Print versions and devices, and compare one step of each kind on a device with the CPU. It takes a minute.

    Without --device, the first CUDA device is tested, or the CPU if there is none. Paste the output into an issue.
    """
    import torch

    from refprior._mesh import usable_device

    chosen = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    print_table([["package", "version"], *([name, _version(name)] for name in PACKAGES)])
    print(f"\nPython {platform.python_version()}, {platform.platform()}")
    print_table([["device", "name", "memory", "fast bfloat16"], *_devices()])
    print(f"\nsteps on {chosen}, compared with the CPU:")
    failed = []
    rows = [["step", "", "seconds", "difference", "limit"]]
    for check in checks(chosen):
        started = time.perf_counter()
        try:
            difference = compare(check, chosen)
            good, found = difference <= check.limit, f"{difference:.1e}"
        except (RuntimeError, ValueError, ArithmeticError, NotImplementedError) as error:
            good, found = False, in_short(error)
        failed += [] if good else [check.name]
        limit = f"{check.limit:.0e}"
        rows.append([check.name, "ok" if good else "FAILED", f"{time.perf_counter() - started:.1f}", found, limit])
    print_table(rows)
    if failed:
        raise FailedError(f"{len(failed)} of {len(rows) - 1} steps failed on {chosen}: paste this output into an issue")


def checks(device: "torch.device") -> Iterator[Check]:
    """Yield one small run of each kind; none draws on the device, where random numbers differ from the CPU's."""
    from functools import partial

    import refprior as rp
    from refprior.training.loop import has_bf16

    shape, classes = (3, 16, 16), 4
    base = rp.Recipe(
        task=_photos,
        network=partial(rp.networks.MLP, shape, classes),
        method=rp.ReferencePrior(),
        steps=STEPS,
        labeled_batch=16,
        unlabeled_batch=32,
    )
    wide = replace(base, network=partial(rp.networks.WideResNet, shape, classes, depth=10, width=1), particles=2)
    yield Check("perceptrons, SGD", base, CLOSE)
    yield Check("perceptrons, Adam", replace(base, optimizer=rp.Optimizer(kind="adam", learning_rate=1e-3)), CLOSE)
    yield Check("perceptrons in a loop", replace(base, execution="loop"), CLOSE)
    yield Check("wide ResNets", wide, CLOSE)
    yield Check("wide ResNets, recomputed", replace(wide, execution="recomputed"), CLOSE)
    yield Check("VAT, second derivatives", replace(base, method=rp.methods.VAT()), HALF)  # draws directions
    yield Check("folds with doubt", replace(base, folds="auto", doubt_labels=True), CLOSE)
    yield Check("wide ResNets, TF32", replace(wide, precision="tf32"), HALF)
    half: Literal["bfloat16", "float16"] = "bfloat16" if has_bf16(device) else "float16"
    yield Check(f"wide ResNets, {half}", replace(wide, precision=half), HALF)
    for name, view in (("RandAugment", rp.views.RandAugment(cutout=4)), ("CTAugment", rp.views.CTAugment(cutout=4))):
        yield Check(f"views of {name}", replace(base, strong=view), HALF * 4)
    yield Check("resumed exactly", replace(wide, deterministic=True, evaluate_every=1), EXACT)


def compare(check: Check, device: "torch.device") -> float:
    """Return the relative difference of the loss; for a run that is resumed, the largest of its weights."""
    from refprior.training import train

    if check.limit == EXACT:
        return _resumed(check.recipe, device)
    there = train(check.recipe, device=device).result.loss
    here = train(replace(check.recipe, precision="float32")).result.loss
    return float("nan") if there is None or here is None else abs(there - here) / abs(here)


def _resumed(recipe: "Recipe", device: "torch.device") -> float:
    """Interrupt a run after its first step, resume it, and compare with the whole run."""
    from refprior.training import Record, train

    def interrupt(record: Record) -> None:
        if record.step == 2:
            raise _InterruptedError

    whole = train(recipe, device=device).ema.state_dict()
    with TemporaryDirectory() as folder:
        with suppress(_InterruptedError):
            train(recipe, Path(folder) / "run", device=device, save_every=0.0, watch=interrupt)
        again = train(recipe, Path(folder) / "run", device=device).ema.state_dict()
    return max(float((tensor - again[name]).abs().max()) for name, tensor in whole.items())


def _photos() -> "Task":
    """Return noise whose color is its class."""
    import torch

    from refprior.data import task_from_arrays

    y = torch.arange(96) % 4
    noise = torch.randint(0, 128, (96, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    images = (noise + 30 * y[:, None, None, None]).to(torch.uint8)
    return task_from_arrays((images[:32], y[:32]), unlabeled=images[32:])


def _devices() -> Iterator[list[str]]:
    import torch

    from refprior._mesh import free_memory
    from refprior.training.loop import has_bf16

    def fast(place: torch.device) -> str:
        return "yes" if has_bf16(place) else "no"

    cores = f"{len(os.sched_getaffinity(0)) if sys.platform == 'linux' else os.cpu_count()} cores"
    yield ["cpu", cores, in_bytes(available_memory()), fast(torch.device("cpu"))]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        place = torch.device("cuda", number)
        major, minor = torch.cuda.get_device_capability(place)
        name = f"{torch.cuda.get_device_name(place)}, capability {major}.{minor}, CUDA {torch.version.cuda}"
        yield [str(place), name, in_bytes(free_memory(place) or 0), fast(place)]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
