"""Training a recipe, in memory or in a run folder that survives every interruption."""

import logging
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from refprior._checks import number
from refprior._mesh import Mesh, free_memory, joined, usable_device
from refprior._process import check_memory
from refprior.data import Identity, Normalizer, Standardize, Task
from refprior.methods import AdaptiveReferencePrior, ReferencePrior
from refprior.particles import Particles, convolves
from refprior.posterior import OutOfFold
from refprior.training._run import RULE_INPUTS, Run, both
from refprior.training._snapshot import save_snapshot, snapshot_steps
from refprior.training.loop import (
    Interrupted,
    NotFiniteError,
    Record,
    State,
    Stop,
    Stopped,
    arithmetic,
    begin,
    check_stages,
    check_training_fits,
    gathered,
    held_out,
    new_particles,
    optimize,
    own_randomness,
    predict_out_of_fold,
    recompute_last_record,
    stopping,
    why_no_folds,
)
from refprior.training.recipe import Recipe
from refprior.training.store import (
    METRICS,
    Checkpoint,
    Metrics,
    Origin,
    Saver,
    Written,
    check_no_strangers,
    check_same_parts,
    check_same_run,
    dump_batch,
    latest_checkpoint,
    load_weights,
    locked,
    move_aside,
    read_history,
    restore_state,
    saved_normalizer,
    write_header,
)

Watcher = Callable[[Record], None]
log = logging.getLogger("refprior")
_CHECKED = 0.05  # inputs in which rules are searched, as a share of the inputs drawn in training: about 1 % of its time
_FEWEST = 50  # inputs; fewer do not separate rules reliably
IMBALANCE = 10  # largest ratio of labels of two classes without a warning
_DISAGREEING = 0.1  # largest α with which scores out of fold were close to those of the test part


@dataclass(frozen=True)
class Session:
    """What all stages of one call of `train` share."""

    out: Path
    device: torch.device
    watch: Watcher | None
    save_every: float | None
    stop: Stop
    mesh: Mesh


def train(
    recipe: Recipe,
    out: Path | str | None = None,
    *,
    device: torch.device | str = "cpu",
    watch: Watcher | None = None,
    origin: Origin | None = None,
    fresh: bool = False,
    save_every: float | None = None,
    first_stage: Run | None = None,
    particle_ranks: int | None = None,
) -> Run:
    """Train every stage of a recipe.

    With `out`, the run folder is written while training, and an interrupted run in that folder is resumed exactly.

    Under torchrun, or in an existing process group, all ranks train one run together: call it on each of them. The
    folder must be visible to all ranks; the first one writes it.

    Parameters
    ----------
    recipe : Recipe
        The recipe.
    out : Path or str, optional
        The run folder. Without it, the run stays in memory.
    device : torch.device or str, default: "cpu"
        Where to compute.
    watch : function, optional
        Called with each `Record`.
    origin : Origin, optional
        Where the recipe came from, for recipe.json.
    fresh : bool, default: False
        Move an existing folder aside and start over.
    save_every : float, optional
        Seconds between checkpoints. Defaults to 30, or more if saving would take more than 1 % of the time.
    first_stage : Run, optional
        The finished run of ``recipe.start``. Its weights are used instead of training that stage again.
    particle_ranks : int, optional
        Ranks that share the particles; the others divide the inputs. Defaults to the greatest common divisor of ranks
        and particles.

    Returns
    -------
    Run
        The trained run.

    Raises
    ------
    ValueError
        If the recipe does not fit its task or memory, or if the folder holds another run.
    Stopped
        If a signal asked the run to stop; everything is saved.
    NotFiniteError
        If a loss, gradient or weight is not finite.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(labels=50), {"steps": 5})
    >>> run = rp.train(recipe, "runs/mine")
    >>> run.result.step
    5
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(f"train takes a Recipe, got {recipe!r}: for a named one, rp.recipes.digits_ssl()")
    device = usable_device(device)
    if save_every is not None:
        number("save_every", save_every, at_least=0)
    mesh = joined(recipe.particles, device, particle_ranks)
    with mesh.first_rank_logs(), arithmetic(recipe, device):
        with mesh.together():
            check_training_fits(recipe, mesh, device)
            if first_stage is not None:
                name = first_stage.path or "first_stage"
                if recipe.start is None or recipe.start.to_dict() != first_stage.recipe.to_dict():
                    raise ValueError(f"{name} is of another recipe than recipe.start, which it would take the place of")
                if first_stage.step < first_stage.recipe.steps:
                    raise ValueError(f"{name} is not finished: step {first_stage.step} of {first_stage.recipe.steps}")
            _prefer_large_pages(recipe)
        first = None if first_stage is None else first_stage.particles.shard(mesh)
        if out is None:
            trained, path = _train_in_memory(recipe, device, watch, first, mesh), None
        else:
            path = Path(out).absolute() if fresh else Path(out)
            with _taken(path, fresh, mesh), stopping() as stop:
                session = Session(path, device, watch, save_every, stop, mesh)
                try:
                    stop.interrupts = lambda: mesh.size == 1  # others would wait for this rank
                    trained = _train_stage(recipe, path, origin, session, first)
                except Interrupted:  # no step was made
                    raise _stopped("stopped", session) from None
        run = trained.run(recipe, path)
        if trained.new and mesh.size == 1:  # no rank of several may hold all weights
            _warn_of_rules(run, device)
        return run


@contextmanager
def _taken(path: Path, fresh: bool, mesh: Mesh) -> Iterator[None]:
    """Keep other processes out of a run folder; the first rank does it for all."""
    with ExitStack() as held:
        with mesh.together():
            if mesh.main:
                check_no_strangers(path)
                if fresh and path.exists():
                    with locked(path):
                        log.warning("moved the old run to %s", move_aside(path))
                held.enter_context(locked(path))
        yield


@dataclass(frozen=True)
class Trained:
    """A finished stage: on a mesh, this rank's part of it."""

    task: Task
    state: State
    history: list[Record]
    new: bool = True  # whether this call trained it to the end

    def run(self, recipe: Recipe, path: Path | None = None) -> Run:
        """Return the run for the user.

        Of a run on several ranks, each rank reads all weights from the folder when it first needs them, independently
        of the others; without a folder they are gathered now.
        """
        raw, ema = self.state.particles, self.state.teacher
        weights = partial(both, raw, ema)
        if raw.mesh.size > 1 and path is not None:
            weights = partial(_from_folder, recipe, path, raw.prior_logits.device)
        elif raw.mesh.size > 1:
            weights = partial(both, *(gathered(recipe, part) for part in (raw, ema)))
        return Run(
            recipe=recipe,
            data=self.task.fingerprint(),
            find_weights=weights,
            normalizer=self.state.normalizer,
            labeled=self.state.labeled,
            preparation=self.task.preparation,
            step=self.state.step,
            history=tuple(self.history),
            path=path,
            find_task=partial(_itself, self.task),  # unlike a lambda, it can be pickled
        )


def _train_in_memory(
    recipe: Recipe, device: torch.device, watch: Watcher | None, first: Particles | None, mesh: Mesh
) -> Trained:
    check_stages(recipe)
    if recipe.start is not None and first is None:
        first = _train_in_memory(recipe.start, device, watch, None, mesh).state.particles
    task = _read_task(recipe, device, mesh)
    with own_randomness(recipe.seed + 3, device):
        state = begin(recipe, task, device, first, mesh)
        history = []
        for record in optimize(recipe, task, state):
            if record is not None:
                history.append(record)
                if mesh.main and watch is not None:
                    watch(record)
    return Trained(task, state, history)


def try_out(recipe: Recipe, task: Task, device: torch.device | str) -> tuple[Particles, Normalizer, OutOfFold, Tensor]:
    """Train with folds, in memory and without warnings.

    Return the moving average, the fitted inputs, the predictions of each label by the particles that have not learned
    it, and which labels each particle left out (K, n).
    """
    place = usable_device(device)
    with own_randomness(recipe.seed + 3, place):
        task = task.to(place)
        state = begin(recipe, task, place)
        for _ in optimize(recipe, task, state):
            pass
        found, out = predict_out_of_fold(recipe, task, state.normalizer, state.teacher), held_out(recipe, task)
    assert found is not None
    assert out is not None
    return state.teacher, state.normalizer, found, out


def _read_task(recipe: Recipe, device: torch.device, mesh: Mesh) -> Task:
    """Read the data, the same on all ranks."""
    # What draws on the way, such as a package that is imported for it, leaves the run's own randomness alone.
    with mesh.together(), own_randomness(recipe.seed + 3, device):
        task = recipe.read_task()
        if device.type != "cpu":  # where the data stay: no step copies them
            held = [part.inputs for part in (task.test, task.validation) if part]
            size = sum(inputs.nbytes for inputs in (*task.training_inputs, *held))
            remedy = "take fewer or smaller inputs, or device=cpu"
            check_memory(size, f"the data of {task.name!r} on {device}", remedy, available=free_memory(device))
        task = task.to(device)
        _warn_of_imbalance(recipe, task)
        problem = why_no_folds(recipe, task) if recipe.folds == "auto" else None
        if problem is not None:
            log.warning("folds=auto leaves folds off: %s", problem)
        _warn_of_disagreement(recipe, task)
    if mesh.size > 1:
        mesh.check_same("a recipe", recipe.to_dict())
        mesh.check_same("data", msgspec.to_builtins(task.fingerprint()))
    return task


def _train_stage(
    recipe: Recipe, path: Path, origin: Origin | None, session: Session, first: Particles | None = None
) -> Trained:
    """Train one stage in its folder, from its last checkpoint, the stage before it, or new weights."""
    with session.mesh.together():
        if session.mesh.main:
            path.mkdir(exist_ok=True)
    task = _read_task(recipe, session.device, session.mesh)
    with own_randomness(recipe.seed + 3, session.device):
        state, metrics = _restored(recipe, task, path, origin, session, first)
        saver = Saver(path, metrics, session.save_every)
        history = _read_history(path, session.mesh)
        new = state.step < recipe.steps
        if not new:
            log.warning("%s is complete: all %d steps are done", path, recipe.steps)
            if not history:  # its metrics were lost
                saver.append(recompute_last_record(recipe, task, state))
                saver.save(state)
                history = _read_history(path, session.mesh)
        else:
            history += _train_in_folder(recipe, task, state, saver, session)
    return Trained(task, state, history, new)


def _read_history(path: Path, mesh: Mesh) -> list[Record]:
    """Read the records on the first rank, and share them."""
    found: list[Record] = []
    with mesh.together():
        if mesh.main:
            found = read_history(path)
    if mesh.size == 1:
        return found
    return [Record.from_dict(record) for record in mesh.broadcast([msgspec.to_builtins(record) for record in found])]


def _warn_of_imbalance(recipe: Recipe, task: Task) -> None:
    """Warn about imbalanced labels if the method accepts a class prior and none was given."""
    if recipe.method.needs.classes != 0 or not recipe.method.needs.labels:
        return
    counts = torch.bincount(task.labeled.labels, minlength=len(task.classes)).tolist()
    if max(counts) > IMBALANCE * min(counts):
        most, fewest = (task.classes[counts.index(count)] for count in (max(counts), min(counts)))
        log.warning(
            "%d labels of class %r but %d of %r, and the method takes all classes to be equally frequent in the pool: "
            "if they are not, give it their shares, class_prior",
            max(counts),
            most,
            min(counts),
            fewest,
        )


def _warn_of_disagreement(recipe: Recipe, task: Task) -> None:
    """Warn if particles with folds are rewarded at the end for contradicting labels that others have learned."""
    method = recipe.method
    if isinstance(method, ReferencePrior | AdaptiveReferencePrior) and held_out(recipe, task) is not None:
        last = method.alpha if method.final_alpha is None else method.final_alpha
        if last > _DISAGREEING:
            log.warning(
                "alpha=%g rewards particles that contradict labels of others: scores out of fold are too low, and "
                "right labels look wrong; set method=AdaptiveReferencePrior or method.final_alpha=0",
                last,
            )


def _warn_of_rules(run: Run, device: torch.device) -> None:
    """Warn if particles that agree on the labels disagree on the pool: the labels may not determine the task."""
    recipe, task, needs = run.recipe, run.task, run.recipe.method.needs
    drawn = recipe.labeled_batch + recipe.tuples * needs.tuple_size * len(needs.views) + recipe.source_batch
    inputs = min(RULE_INPUTS, int(_CHECKED * recipe.steps * drawn), len(task.unlabeled))
    if not run.has_rules or inputs < _FEWEST:
        return
    with own_randomness(recipe.seed + 3, device):  # of a network that draws in evaluation too
        rules = run.rules(most=inputs)
    if rules.ambiguous:
        ask = "rules()"  # of the run, or of the estimator that trained it
        if run.path is not None:
            ask = f"run.rules(), or ask: refprior suggest {shlex.quote(str(run.path))} --about rule"
        log.warning(
            "%d rules fit the %d labels and disagree on %.0f %% of the pool: the labels may not determine the task; "
            "see %s",
            len(rules),
            len(task.labeled),
            100 * rules.disagreement,
            ask,
        )


def _restored(
    recipe: Recipe, task: Task, path: Path, origin: Origin | None, session: Session, first: Particles | None
) -> tuple[State, Metrics | None]:
    """Return the state to resume from and its metrics; nothing is cut before everything was found intact."""
    mesh = session.mesh
    state = begin(recipe, task, session.device, mesh=mesh, normalizer=_fitted(recipe, path, session.device))
    with mesh.together():
        if mesh.main:
            check_same_run(path, recipe)  # after all that is wrong with the recipe itself
            check_same_parts(path, task, state.particles)

    def restore(found: Checkpoint) -> Written:
        restore_state(state, found)
        return found.summary.metrics

    known: Written | None = None
    with mesh.together():
        known = latest_checkpoint(path, restore, rename_damaged=mesh.main, state=state)
        if known is None:
            check_stages(recipe)
    if mesh.size > 1:
        mesh.check_same(f"a checkpoint (of step {state.step})", state.step)
    with mesh.together():
        if mesh.main and state.step < recipe.steps:
            write_header(path, recipe, task, state.particles, origin)
    if known is None and recipe.start is not None:
        initial = first or _train_stage(recipe.start, path / "start", None, session).state.particles
        state = begin(recipe, task, session.device, initial, mesh, state.normalizer)
    return state, _metrics(path, state, known or Written())


def _fitted(recipe: Recipe, path: Path, device: torch.device) -> Normalizer | None:
    """Return the normalizer of a run that is resumed, if reading it is faster than fitting it again."""
    if isinstance(recipe.inputs, Standardize | Identity):
        return None
    try:
        check_same_run(path, recipe)
    except ValueError:  # which is reported after all that is wrong with the recipe itself
        return None
    return saved_normalizer(path, device)


def _metrics(path: Path, state: State, known: Written) -> Metrics | None:
    """Open metrics.jsonl as a checkpoint knows it, on the first rank. A damaged one is renamed and begun anew."""
    mesh, metrics, damaged = state.particles.mesh, None, False
    with mesh.together():
        if mesh.main:
            try:
                metrics = Metrics(path, known)
            except ValueError as error:
                damaged, aside = True, move_aside(path / METRICS)
                kept = f"what is left of it is in {aside.name}, " if aside is not None else ""
                log.warning("%s; %sa new one begins at step %d", error, kept, state.step)
                metrics = Metrics(path, Written())
    if mesh.broadcast(damaged):
        Saver(path, metrics, None).save(state)
    return metrics


def _train_in_folder(recipe: Recipe, task: Task, state: State, saver: Saver, session: Session) -> list[Record]:
    """Train in a locked folder to the end or until asked to stop; return the new records."""
    history: list[Record] = []
    if state.step == 0:
        saver.must_save(state)
    due = snapshot_steps(recipe)
    if state.step in due:
        _try_snapshot(saver.path, task, state)
    mesh = session.mesh
    preparing, session.stop.interrupts = session.stop.interrupts, lambda: state.interruptible and mesh.size == 1
    try:
        for record in optimize(recipe, task, state, due):
            if state.step in due:
                _try_snapshot(saver.path, task, state)
            if record is not None:
                saver.append(record)
                history.append(record)
                if mesh.main and session.watch is not None:
                    session.watch(record)
            signal_number, save_now = mesh.largest(session.stop.signal_number or 0, mesh.main and saver.due())
            session.stop.signal_number = int(signal_number) or None
            if state.step == recipe.steps or session.stop.signal_number is not None:
                saver.must_save(state)
                _stop_if_asked(recipe, state, saver.path, session)
            elif save_now:
                saver.try_save(state)
    except Interrupted:
        saver.must_save(state)
        _stop_if_asked(recipe, state, saver.path, session)
    except NotFiniteError as error:
        where = ""
        if mesh.main:
            try:
                where = f"; the batch is in {dump_batch(saver.path, error.trouble)}"
            except OSError as problem:  # such as a full disk
                where = f"; the batch could not be kept ({problem})"
        raise NotFiniteError(error.trouble, where) from None
    finally:
        session.stop.interrupts = preparing
    return history


def _try_snapshot(path: Path, task: Task, state: State) -> None:
    """Save the predictions of this step; warn if that fails, because they are only for figures."""
    try:
        save_snapshot(path, task, state)
    except OSError as error:
        log.warning("could not save the snapshot of step %d (%s): training continues without it", state.step, error)


def _stop_if_asked(recipe: Recipe, state: State, path: Path, session: Session) -> None:
    """Raise `Stopped` if a signal arrived and there is something left to do."""
    finished = state.step == recipe.steps and path == session.out
    if session.stop.signal_number is not None and not finished:
        stage = "" if path == session.out else f" of {path.relative_to(session.out)}/"
        raise _stopped(f"stopped at step {state.step} of {recipe.steps}{stage} and saved", session)


def _stopped(message: str, session: Session) -> Stopped:
    again = f"the same command or call with the folder {shlex.quote(str(session.out))} resumes it"
    return Stopped(f"{message}; {again}", session.stop.signal_number or signal.SIGINT)


def _from_folder(recipe: Recipe, path: Path, device: torch.device) -> tuple[Particles, Particles]:
    """Read all weights of a run from its newest checkpoint."""
    raw = new_particles(recipe)
    ema = deepcopy(raw).requires_grad_(False).eval()
    latest_checkpoint(path, lambda found: load_weights(found, raw=raw, ema=ema))
    return raw.to(device), ema.to(device)


def _itself(task: Task) -> Task:
    return task


def _prefer_large_pages(recipe: Recipe) -> None:
    """Ask torch for large pages, unless the networks convolve or the user has chosen.

    The gradient of thousands of small networks is a fresh tensor in each step, and on small pages its page faults cost
    more than the product that fills it. Convolutions lose by them. Torch reads the variable at its first large
    allocation, so that this helps only in a process that has not used much memory yet.
    """
    if "THP_MEM_ALLOC_ENABLE" not in os.environ and not convolves(Particles(recipe.network, 1)):
        os.environ["THP_MEM_ALLOC_ENABLE"] = "1"
