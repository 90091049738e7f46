"""Reading by actors of Ray, on this machine or on a cluster (`runner=ray`).

A run plans the same batches as without Ray, and so gets the same numbers. A batch is a row of a Ray
Dataset, its prompts' token ids and never text; an actor holds the models and gives readings back,
which are stored batch by batch as they come. Of a file of texts that is scored a row is a shard,
which its actor reads, judges and writes (`judgebench.cards.scoring`). Restarts of actors, retries
and the size of the pool are Ray's; what a killed run lacks, the store says, or the folder of shards.
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
from typing import TYPE_CHECKING, Any, Protocol

from judgebench.runtime.distributed import NullTrainer
from judgebench.runtime.files import sha256_of
from judgebench.runtime.threads import forget_threads
from judgebench.settings.fields import Amount, Count, Positive, Words, check_fields
from judgebench.types import Example, Prompt, Record
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from judgebench.judges import PassRunner
    from judgebench.judges.local.batches import Batch
    from judgebench.judges.local.models import Trainers
    from judgebench.judges.local.passes import LocalPass
    from judgebench.judges.local.session import PassSession
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

    def faults(self) -> Iterator[str]:
        given = self.actors
        if not isinstance(given, int | None) and (len(given) != 2 or given[0] > given[1]):
            yield (
                f"runner.actors: {list(given)} is neither a number nor the least and the most of "
                "them; give runner.actors=4 or 'runner.actors=[2,8]'."
            )
        if str(self.address).startswith("ray://"):
            yield (
                "runner.address: behind ray:// every row would pass through a proxy; run the "
                "command on a machine of the cluster with runner.address=auto, or send it there "
                "(ray job submit -- python -m judgebench ...)."
            )
        if importlib.util.find_spec("ray") is None:
            yield (
                "runner=ray: Ray is not installed; `pip install 'judgebench[ray]'` brings it, or "
                "take runner=lightning."
            )


@dataclass
class RayTrainer:
    """This process's trainer, in whose place actors compute passes.

    Args:
        trainer: for what this process computes by itself, such as a tutor's states.
    """

    settings: RayRunner
    trainer: Trainers
    _told: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.compute_there()

    def compute_there(self) -> None:
        """The arithmetic of readings is the actors' from now on, see
        `judgebench.judges.local.devices.compute_with`."""
        import torch

        from judgebench.judges.engine.hardware import compute_on

        gpus = self.settings.num_gpus
        # this machine's processor is the actors' too; of other devices they say themselves what
        # they compute
        if self.settings.address is None and not (
            torch.cuda.is_available() if gpus is None else gpus
        ):
            compute_on(torch.device("cpu"))
        else:
            compute_on(self.trainer.strategy.root_device, elsewhere=self._ask)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trainer, name)

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
    ) -> NullTrainer:
        """Computes and stores batches, as `loop.compute` does; gives what stands for a trainer that
        has read. `UserError` where an actor would read something else, or Ray gives up."""
        from judgebench.runtime.progress import Progressing

        # 1. a task a batch
        tasks = []
        count = 0
        for number, (pass_, batches) in enumerate(todo):
            for batch in batches:
                tasks.append((number, *_packed(pass_, batch)))
                count += len(batch.prompts) * len(pass_.keys(batch.prompts[0]))
        # 2. readings as they come
        devices = set[str]()
        title = " and ".join(dict.fromkeys(pass_.title for pass_, _ in todo))
        shown = runner.trainer.progress_bar_callback is not None
        reading = BatchReading([(pass_.elsewhere(), _arithmetic(pass_)) for pass_, _ in todo])
        with Progressing(f"{doing} with {title}", count, shown) as progress:
            for device, readings in by_actors(self.settings, reading, tasks):
                devices.add(device)
                runner.store.put(readings)
                progress.advance(len(readings))
        return NullTrainer(device=f"{', '.join(sorted(devices))} (actors of Ray)")


class Work(Protocol):
    """Work that actors do task by task, each with a copy of its own."""

    def begin(self, device: str, away: bool) -> None:
        """Prepares an actor for it; models run on `device`, `away` from the driver's machine."""

    def __call__(self, task: Any) -> Any:
        """The result of a task; `UserError` ends the work."""


def by_actors(
    settings: RayRunner, work: Work, tasks: Sequence[Any], at_once: int = 1
) -> Iterator[Any]:
    """Results of tasks as they come, in any order; one pool of actors does them all, and the tasks
    of an actor that dies are done again. `UserError` where an actor finds a mistake, or Ray gives
    up.

    Args:
        at_once: tasks, 1 or 2, that an actor works on at once, each in a thread of its own. It has
            two in hand in any case, so none hoards more.
    """
    import pyarrow as pa

    with _ray(settings) as (ray, (least, most), needs, device):
        home = ray.get_runtime_context().get_node_id(), os.getcwd()
        rows = [
            pa.Table.from_pylist([{"task": bytes(ForkingPickler.dumps(task))}]) for task in tasks
        ]
        pool = ray.data.ActorPoolStrategy(
            min_size=least,
            max_size=max(least, min(most, len(rows))),
            max_tasks_in_flight_per_actor=2,
            max_concurrent_calls_per_actor=at_once,
            enable_true_multi_threading=at_once > 1,
        )
        results = ray.data.from_arrow(rows).map_batches(
            Actor,
            fn_constructor_args=[work, _versions(), device, home],
            compute=pool,
            batch_size=None,
            batch_format="pyarrow",
            **needs,
        )
        for table in results.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for row in table.to_pylist():
                mistakes, result = ForkingPickler.loads(row["result"])
                if mistakes:
                    raise UserError(*mistakes)
                yield result


class Actor:
    """Does its share of a work.

    Args:
        versions: those of the driver.
        device: where models are computed, and whether they are compiled.
        home: Ray's name of the driver's machine, and the folder it runs in.
    """

    def __init__(
        self,
        work: Work,
        versions: dict[str, str],
        device: tuple[str, bool],
        home: tuple[str, str],
    ):
        self._work = work
        self._versions = versions
        self._device = device
        self._home = home[0]
        self._begun = False
        self._beginning = threading.Lock()
        with suppress(OSError):  # paths of models and texts may be relative
            os.chdir(home[1])

    def __call__(self, table: pa.Table) -> pa.Table:
        """The result of each row's task, or what a user can mend, pickled."""
        import pyarrow as pa

        results = []
        for row in table.to_pylist():
            result = None
            mistakes: tuple[str, ...] = ()
            try:
                with self._beginning:
                    if not self._begun:
                        self._begin()
                result = self._work(ForkingPickler.loads(row["task"]))
            except UserError as error:
                mistakes = tuple(error.sentences)
            results.append({"result": bytes(ForkingPickler.dumps((mistakes, result)))})
        return pa.Table.from_pylist(results)

    def _begin(self) -> None:
        import ray
        import torch

        from judgebench.judges.engine.hardware import compute_on

        here = _versions()
        for name, version_there in self._versions.items():
            if here[name] != version_there:
                raise _differing(name, here[name])
        compute_on(torch.device(self._device[0]), self._device[1])
        away = ray.get_runtime_context().get_node_id() != self._home
        self._work.begin(self._device[0], away)
        self._begun = True


class BatchReading:
    """Work of reading batches of token ids; the models of a pass are loaded when its first batch
    comes.

    Args:
        passes: without their prompts, each with its `_arithmetic` where it was planned.
    """

    def __init__(self, passes: Sequence[tuple[LocalPass, str]]) -> None:
        self._passes = passes
        self._pass = -1
        self._session: PassSession | None = None

    def begin(self, device: str, away: bool) -> None:
        import torch

        from judgebench.judges.local.models import Models

        self._device = torch.device(device)
        self._away = away
        self._models = Models()
        self._name = "cpu"
        if self._device.type == "cuda":
            self._name = torch.cuda.get_device_name(0)

    def __call__(self, task: tuple[int, Batch, list[Any]]) -> tuple[str, list[ModelReading]]:
        """The device's name and the readings of a batch, the task being `_packed` with the number
        of its pass."""
        import torch

        number, batch, marks = task
        session = self._session_of(number)
        for prompt, known in zip(batch.prompts, marks, strict=True):
            self._passes[number][0].mark(prompt, known)
        with torch.inference_mode():
            return self._name, session.read(batch)

    def _session_of(self, number: int) -> PassSession:
        """The pass of a number under way, whose readings will be those that were planned; else
        `UserError`."""
        from judgebench.judges.local.session import PassSession

        if self._session is not None and number == self._pass:
            return self._session
        if self._session is not None:
            self._session.end()
        pass_, planned = self._passes[number]
        if _arithmetic(pass_) != planned:
            raise _differing("arithmetic", _arithmetic(pass_))
        for view in pass_.views if self._away else ():
            if view.source.fingerprint(_digest) != view.fingerprint:
                raise _differing(f"the files of {view.source.title}", "others")
        self._models.make_room(
            {source for later, _ in self._passes[number:] for source in later.sources}
        )
        self._pass = number
        self._session = PassSession(pass_, self._models).to(self._device)
        self._session.begin()
        return self._session


def _packed(pass_: LocalPass, batch: Batch) -> tuple[Batch, list[Any]]:
    """A batch without its texts, and what its pass knows of each prompt."""

    def bare(prompt: Prompt) -> Prompt:
        example = Example(prompt.example.example_id, "", "", "", "", {})
        return replace(prompt, example=example, prefix="", tail="", choices={})

    groups = tuple(tuple(map(bare, group)) for group in batch.groups)
    return replace(batch, groups=groups), [pass_.marked(prompt) for prompt in batch.prompts]


def _arithmetic(pass_: LocalPass) -> str:
    """The dtypes and kernels on which readings of a pass depend, besides models and prompts."""
    views = [view.identity() for view in pass_.views]
    return f"dtypes and kernels {[(view['dtype'], view.get('kernels')) for view in views]}"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("judgebench", "torch", "transformers")}


def _differing(what: str, here: str) -> UserError:
    return UserError(
        f"runner: the machine {os.uname().nodename} of an actor differs in {what} (it has {here}); "
        "all machines that read must have the same."
    )


def _answer(device: tuple[str, bool], name: str, *arguments: Any) -> Any:
    import torch

    from judgebench.judges.engine.hardware import compute_on

    return getattr(compute_on(torch.device(device[0]), device[1]), name)(*arguments)


_digest = cache(sha256_of)
"""Of a file of a model, which stays as it is while it is read."""


def _connected(address: str | None) -> Any:
    """Ray, started here where no address is given. It is silent: what goes wrong comes as an
    exception, `UserError` where it is not reached."""
    said = ("USAGE_STATS_ENABLED=0", "BACKEND_LOG_LEVEL=fatal", "ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0")
    for name in (*said, "IGNORE_UNHANDLED_ERRORS=1"):
        os.environ.setdefault(*f"RAY_{name}".split("="))
    import ray
    import ray.data

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
            forget_threads()  # an actor has as many as cores, which Ray sets
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
    return ray


@contextmanager
def _ray(
    settings: RayRunner,
) -> Iterator[tuple[Any, tuple[int, int], dict[str, float], tuple[str, bool]]]:
    """Ray, which ends with this process if it is started here; the least and the most actors; what
    each needs; its device, and whether it compiles. What Ray raises in the block becomes a
    `UserError`."""
    from judgebench.judges.engine.hardware import hardware

    # 1. Ray, whose bars and warnings nobody has asked for
    address = settings.address
    ray = _connected(address)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # a pool may grow while its actors have as much in hand as they work on at once
    context.actor_pool_util_upscaling_threshold = 1.0
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
