"""Reading by actors of Ray, on this machine or on a cluster (`runner=ray`).

This process plans the same batches as without Ray, and so gets the same numbers. A batch is a row
of a Ray Dataset, its prompts' token ids and never text; an actor holds the models and gives readings back, which
are stored batch by batch as they come. Restarts of actors, retries and the size of the pool are
Ray's; what a killed run lacks, the store says.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from multiprocessing.reduction import ForkingPickler  # between processes of one run
from typing import TYPE_CHECKING, Any

from judgebench.runtime.errors import UserError
from judgebench.runtime.fields import (
    Amount,
    Count,
    Positive,
    Words,
    check_fields,
)
from judgebench.runtime.files import sha256_of
from judgebench.types import Example, Prompt, Record

if TYPE_CHECKING:
    import pyarrow as pa

    from judgebench.judges import PassRunner
    from judgebench.judges.local.batches import Batch
    from judgebench.judges.local.models import Trainers
    from judgebench.judges.local.passes import LocalPass
    from judgebench.readings.reading import ModelReading

# Ray, torch and pyarrow are imported where something is read


@dataclass(frozen=True)
class RayRunner:
    """Settings of conf/runner/ray.yaml; `UserError` for a value that is none, or where Ray is not
    installed.

    Args:
        address: of the cluster; None is this machine by itself.
        actors: how many, or the least and the most; None is one for each GPU, or one.
        num_gpus: GPUs of an actor; None is 1 where there are any.
        num_cpus: cores of an actor.
    """

    address: Words | None = None
    actors: Count | Sequence[Count] | None = None
    num_gpus: Amount | None = None
    num_cpus: Positive = 1

    def __post_init__(self) -> None:
        check_fields(self, "runner")
        given = self.actors
        if not isinstance(given, int | None) and (len(given) != 2 or given[0] > given[1]):
            raise UserError(
                f"runner.actors: {list(given)} is neither a number nor the least and the most of "
                "them; give runner.actors=4 or 'runner.actors=[2,8]'."
            )
        if str(self.address).startswith("ray://"):
            raise UserError(
                "runner.address: behind ray:// every row would pass through a proxy; run the "
                "command on a machine of the cluster with runner.address=auto, or send it there "
                "(ray job submit -- python -m judgebench ...)."
            )
        if importlib.util.find_spec("ray") is None:
            raise UserError(
                "runner=ray: Ray is not installed; `pip install 'judgebench[ray]'` brings it, or "
                "take runner=lightning."
            )


@dataclass
class RayTrainers:
    """Makes this process's trainer, as any `Trainers`, and has passes computed by actors in its
    place.

    Args:
        trainer: makes the trainer, for what this process computes by itself, such as a tutor's
            states.
    """

    settings: RayRunner
    trainer: Trainers
    _told: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def __call__(self, callbacks: list[Any]) -> Any:
        import torch

        from judgebench.judges.engine.kernels import compute_on, hardware

        trainer = self.trainer(callbacks)
        gpus = self.settings.num_gpus
        # this machine's processor is the actors' too; of other devices they say themselves what
        # they compute
        if self.settings.address is None and not (
            torch.cuda.is_available() if gpus is None else gpus
        ):
            compute_on(torch.device("cpu"), hardware().compiled)
        else:
            compute_on(trainer.strategy.root_device, hardware().compiled, self._ask)
        return trainer

    def _ask(self, *question: Any) -> Any:
        """The result of a method of `Hardware`, by its name and arguments, in a task with the
        resources of an actor."""
        if question not in self._told:
            with _ray(self.settings) as (ray, _, needs, device):
                task = ray.remote(**needs)(_answer).remote(device, *question)
                self._told[question] = ray.get(task)
        return self._told[question]

    def compute(
        self, runner: PassRunner, todo: Sequence[tuple[LocalPass, Sequence[Batch]]], doing: str
    ) -> Any:
        """Computes and stores batches, as `loop.compute` does; gives what stands for a trainer that
        has read, None if nothing was missing. `UserError` where an actor would read something else,
        or Ray gives up."""
        import pyarrow as pa

        from judgebench.runtime.distributed import Alone
        from judgebench.runtime.progress import Progressing

        todo = [(pass_, batches) for pass_, batches in todo if batches]
        if not todo:
            return None
        # 1. a row a batch
        rows = []
        count = 0
        for number, (pass_, batches) in enumerate(todo):
            for batch in batches:
                row = {"pass": number, "batch": _packed(pass_, batch)}
                rows.append(pa.Table.from_pylist([row]))
                count += len(batch.prompts) * len(pass_.keys(batch.prompts[0]))
        # 2. actors, which get all else once
        devices = set[str]()
        title = " and ".join(dict.fromkeys(pass_.title for pass_, _ in todo))
        shown = runner.trainer([]).progress_bar_callback is not None
        with _ray(self.settings) as (ray, (least, most), needs, device):
            home = ray.get_runtime_context().get_node_id(), os.getcwd()
            passes = [(pass_.elsewhere(), _identity(pass_)) for pass_, _ in todo]
            pool = ray.data.ActorPoolStrategy(
                min_size=least, max_size=max(least, min(most, len(rows)))
            )
            results = ray.data.from_arrow(rows).map_batches(
                Actor,
                fn_constructor_args=[passes, device, home],
                compute=pool,
                batch_size=None,
                batch_format="pyarrow",
                **needs,
            )
            # 3. readings as they come
            with Progressing(f"{doing} with {title}", count, shown) as progress:
                for table in results.iter_batches(
                    batch_size=None, batch_format="pyarrow", prefetch_batches=0
                ):
                    for row in table.to_pylist():
                        name, mistakes, readings = ForkingPickler.loads(row["result"])
                        if mistakes:
                            raise UserError(*mistakes)
                        devices.add(name)
                        runner.store.put(readings)
                        progress.advance(len(readings))
        return Alone(device=f"{', '.join(sorted(devices))} (actors of Ray)")


class Actor:
    """Reads rows of token ids; the models of a pass are loaded when its first row comes.

    Args:
        passes: without their prompts, each with what `_identity` says of it where it was planned.
        device: where models are computed, and whether they are compiled.
        home: Ray's name of the driver's machine, and the folder it runs in.
    """

    def __init__(self, passes: Sequence[Any], device: tuple[str, bool], home: tuple[str, str]):
        import torch

        from judgebench.judges.engine.kernels import compute_on
        from judgebench.judges.local.models import Models

        self._passes = passes
        self._home = home[0]
        self._models = Models()
        self._device = compute_on(torch.device(device[0]), device[1]).device
        self._name = torch.cuda.get_device_name(0) if self._device.type == "cuda" else "cpu"
        self._judge: Any = None
        self._pass = -1
        with suppress(OSError):  # paths of models may be relative
            os.chdir(home[1])

    def __call__(self, table: pa.Table) -> pa.Table:
        """The readings of each row, or what a user can mend, pickled with the device's name."""
        import pyarrow as pa
        import torch

        results = []
        for row in table.to_pylist():
            readings: list[ModelReading] = []
            mistakes: tuple[str, ...] = ()
            try:
                judge = self._judge_of(row["pass"])
                batch, marks = ForkingPickler.loads(row["batch"])
                for prompt, known in zip(batch.prompts, marks, strict=True):
                    self._passes[row["pass"]][0].mark(prompt, known)
                with torch.inference_mode():
                    readings = judge.predict_step(batch, 0)
            except UserError as error:
                mistakes = tuple(error.sentences)
            results.append(
                {"result": bytes(ForkingPickler.dumps((self._name, mistakes, readings)))}
            )
        return pa.Table.from_pylist(results)

    def _judge_of(self, number: int) -> Any:
        """The reader of a pass, whose readings will be those that were planned; else
        `UserError`."""
        import ray

        from judgebench.judges.local.loop import JudgeModule

        if number == self._pass:
            return self._judge
        if self._judge is not None:
            self._judge.on_predict_end()
        pass_, planned = self._passes[number]
        here = _identity(pass_)
        differing = [name for name in planned if here[name] != planned[name]]
        if not differing and ray.get_runtime_context().get_node_id() != self._home:
            others = [
                view.source
                for view in pass_.views
                if view.source.fingerprint(_digest) != view.fingerprint
            ]
            differing = [f"the files of {source.title}" for source in others]
        if differing:
            raise UserError(
                f"runner: the machine {os.uname().nodename} of an actor differs in {differing[0]} "
                f"(it has {here.get(differing[0], 'others')}); all machines that read must have "
                "the same."
            )
        self._models.make_room(
            {source for later, _ in self._passes[number:] for source in later.sources}
        )
        self._pass, self._judge = number, JudgeModule(pass_, self._models)
        self._judge.configure_model()
        self._judge.to(self._device).on_predict_start()
        return self._judge


def _packed(pass_: LocalPass, batch: Batch) -> bytes:
    """A batch without its texts, pickled with what its pass knows of each prompt."""

    def bare(prompt: Prompt) -> Prompt:
        example = Example(prompt.example.example_id, "", "", "", "", {})
        return replace(prompt, example=example, prefix="", tail="", choices={})

    groups = tuple(tuple(map(bare, group)) for group in batch.groups)
    marks = [pass_.marked(prompt) for prompt in batch.prompts]
    return bytes(ForkingPickler.dumps((replace(batch, groups=groups), marks)))


def _identity(pass_: LocalPass) -> dict[str, str]:
    """All that readings of a pass depend on besides prompts and files, by what a user calls it."""
    views = [view.identity() for view in pass_.views]
    arithmetic = f"dtypes and kernels {[(view['dtype'], view.get('kernels')) for view in views]}"
    return {
        "arithmetic": arithmetic,
        **{name: version(name) for name in ("judgebench", "torch", "transformers")},
    }


def _answer(device: tuple[str, bool], name: str, *arguments: Any) -> Any:
    import torch

    from judgebench.judges.engine.kernels import compute_on

    return getattr(compute_on(torch.device(device[0]), device[1]), name)(*arguments)


_digest = cache(sha256_of)
"""Of a file of a model, which stays as it is while it is read."""


@contextmanager
def _ray(
    settings: RayRunner,
) -> Iterator[tuple[Any, tuple[int, int], dict[str, float], tuple[str, bool]]]:
    """Ray, which ends with this process if it is started here; the least and the most actors; what
    each needs; its device, and whether it compiles. What Ray raises in the block becomes a
    `UserError`."""
    # 1. Ray, silent: what goes wrong comes as an exception
    said = ("USAGE_STATS_ENABLED=0", "BACKEND_LOG_LEVEL=fatal", "ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0")
    for name in (*said, "IGNORE_UNHANDLED_ERRORS=1"):
        os.environ.setdefault(*f"RAY_{name}".split("="))
    import ray
    import ray.data

    from judgebench.judges.engine.kernels import hardware

    address = settings.address
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    errors = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        if not ray.is_initialized():
            os.dup2(nothing, 2)  # compiled code says how little it will say
            host, colon, port = (address or "").rpartition(":")
            if colon:  # Ray would try for many minutes
                socket.create_connection((host, int(port)), timeout=10).close()
            options: Record = {} if address else {"include_dashboard": False}
            ray.init(
                address or "local", log_to_driver=False, logging_level=logging.ERROR, **options
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"runner.address: no Ray is reached at {address or 'this machine'} "
            f"({' '.join(str(error).split())[:200]}); start one (ray start --head), name another, "
            "or leave the address out to start it here."
        ) from error
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nothing)
        if main:  # Ray takes the signal for itself, and this program ends by it with a sentence
            signal.signal(signal.SIGTERM, before)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # 2. actors, and what each needs
    there = ray.cluster_resources()
    cores = there.get("CPU", 0.0)
    gpus = there.get("GPU", 0.0)
    cpus = settings.num_cpus
    of_each = float(gpus > 0) if settings.num_gpus is None else settings.num_gpus
    actors = settings.actors or (max(1, int(gpus / of_each)) if of_each else 1)
    least, most = (actors, actors) if isinstance(actors, int) else actors
    # a cluster may get machines when they are asked for; this one stays as it is
    if address is None and (least * cpus > cores or least * of_each > gpus):
        raise UserError(
            f"runner: {least} actors of {cpus:g} cores and {of_each:g} GPUs are more than this "
            f"machine has ({cores:g} cores, {gpus:g} GPUs); lower runner.actors, runner.num_cpus "
            "or runner.num_gpus."
        )
    needs = {"num_cpus": cpus, "num_gpus": of_each}
    device = "cuda:0" if of_each else "cpu"
    try:
        yield ray, (least, most), needs, (device, hardware().compiled)
    except ray.exceptions.RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        raise UserError(
            f"runner: Ray gives up ({type(error).__name__}: {lines[-1][:300].rstrip('.')}). What "
            "was stored stays; the same command goes on from there."
        ) from error
