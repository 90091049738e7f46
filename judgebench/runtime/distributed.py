"""The processes of one run: one, or several that do the same things in the same order, each reading
its share.

Lightning starts the others on this machine, torchrun or SLURM on several. The first process alone
keeps the store of readings and writes the run folder, so nothing depends on what the machines' file
systems promise each other. What must be the same everywhere, and could differ (what the store
holds, what floating-point arithmetic of another CPU gives), the first finds out and says
(`Processes.agree`).

Where Lightning starts the others, it does so by running the command again, and only when there is
something to read: what was agreed until then they learn when they join.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from judgebench.runtime.threads import forget_threads
from judgebench.words.errors import ReportedElsewhere, UserError, reason
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    import lightning as L

# torch and Lightning are imported where several processes need them: a run without a model does
# without both
T = TypeVar("T")

_CONNECT = timedelta(minutes=30)
"""Longest wait for the other processes to come up; Lightning's own."""

_PATIENCE = timedelta(days=7)
"""Longest wait for another's share of the work. A process that ends is noticed at once, by its
connection."""

_BEAT = 5.0
"""Seconds between two signs of life while processes compute together."""

_SILENCE = 40.0
"""Seconds without one after which a process counts as ended."""

_POLL = 0.02
"""Seconds between two looks into the mailbox."""


_LEFT = b"left"
"""The last sign of life of a process that has done its share."""


@dataclass(frozen=True)
class NullTrainer:
    """Stand-in for a Lightning Trainer in a run of one process in which no model is read here: such
    a run needs neither Lightning nor torch. It has those attributes of a Trainer that are asked
    for.

    Attributes:
        progress_bar_callback: True for a bar, None for none.
        device: name of what has read elsewhere.
    """

    progress_bar_callback: bool | None = True
    device: str | None = None
    world_size = 1
    global_rank = 0
    is_global_zero = True
    strategy = None


class Lost(UserError):
    """Another process of the run has ended."""


class Processes:
    """The processes of a run, seen from one of them.

    Args:
        trainer: as configured; None is one process.

    Raises:
        UserError: the trainer's processes cannot work together, or do not find each other.

    Attributes:
        rank: this process's position among them, from 0.
        count: the number of processes.
        strategy: the trainer's; None without one.
    """

    def __init__(self, trainer: L.Trainer | NullTrainer | None = None):
        strategy: Any = None if trainer is None else trainer.strategy
        self.strategy = strategy
        self.count = 1 if trainer is None else int(trainer.world_size)
        self.rank = 0 if trainer is None else int(trainer.global_rank)
        self._group: Any = None
        self._mail: Any = None
        self._sent = self._received = self._watches = 0
        self._finding = False
        self._agreed: list[Any] = []
        self._to_hear: deque[tuple[bool, Any]] = deque()
        if self.count < 2:
            return
        # several processes can work together under few strategies
        from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
        from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher

        known = isinstance(strategy, DDPStrategy | ModelParallelStrategy)
        if not known or isinstance(strategy.launcher, _MultiProcessingLauncher):
            raise UserError(
                f"trainer.strategy: several processes under {type(strategy).__name__}"
                + (" that are forked from this one" if known else "")
                + " cannot read together here; take trainer=ddp, or for models larger than one GPU "
                "trainer=fsdp."
            )
        # others exist already, on their way here, or this is one of them
        if strategy.cluster_environment.creates_processes_externally or strategy.num_nodes > 1:
            self.join()

    @property
    def first(self) -> bool:
        """True in the process that keeps the store and writes the run folder."""
        return self.rank == 0

    @property
    def joined(self) -> bool:
        """True once the other processes can be reached."""
        return self._group is not None

    def join(self) -> None:
        """Starts the others where that is this process's to do, and waits until all are there;
        once. `UserError` where they do not find each other."""
        if self.count == 1 or self.joined:
            return
        strategy = self.strategy
        try:
            if strategy.launcher is not None:
                forget_threads()  # Lightning divides the cores
                strategy.launcher.launch(lambda: None)  # they run the command
            strategy.accelerator.setup_device(strategy.root_device)
            strategy.set_world_ranks()
            self.rank = int(strategy.global_rank)
            self._connect(strategy)
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError(
                f"trainer: its {self.count} processes do not find each other ({reason(error)}); "
                "MASTER_ADDR and MASTER_PORT must name the first machine, and where a machine has "
                "several networks, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME the one to use."
            ) from error
        agreed = self._broadcast(self._agreed)
        self._to_hear = deque(() if self.first else agreed)
        self._agreed = []

    def agree(self, find: Callable[[], T]) -> T:
        """The result of `find`, which the first process alone runs, in all processes; all call this
        in the same order. The `UserError` of `find` is raised in all."""
        if self.count == 1 or self._finding:
            return find()
        if self._to_hear:
            fine, value = self._to_hear.popleft()
        else:
            outcome: Any = None
            if self.first:
                self._finding = True
                try:
                    outcome = True, find()
                except UserError as error:
                    outcome = False, str(error)
                finally:
                    self._finding = False
            if not self.joined:  # only the first process can be alone
                self._agreed.append(outcome)
            fine, value = self._broadcast(outcome) if self.joined else outcome
        if fine:
            return value
        raise (UserError if self.first else ReportedElsewhere)(value)

    def together(self, do: Callable[[], T]) -> T:
        """Runs `do` in each process; the `UserError` of the first that fails is raised in all. All
        call this in the same order."""
        error: UserError | None = None
        try:
            done = do()
        except UserError as mistake:
            error = mistake
        if self.count > 1 and not self.joined:
            self._agreed.append((True, None))
        elif self._to_hear:
            self._to_hear.popleft()
        elif self.joined:
            errors = self._gathered(None if error is None else str(error))
            failed = next((rank for rank, fault in enumerate(errors) if fault is not None), None)
            if failed is not None and failed != self.rank:
                raise ReportedElsewhere(str(errors[failed])) from error
        if error is not None:
            raise error
        return done

    def check_same(self, value: str, what: str) -> None:
        """Checks that all processes have the same `value`, which `what` names; else `UserError`.
        All call this in the same order."""
        if not self.joined:
            return
        values = self._gathered(value)
        if odd := [rank for rank, other in enumerate(values) if other != values[0]]:
            raise (UserError if self.rank in (0, odd[0]) else ReportedElsewhere)(
                f"trainer: process {odd[0]} has other {what} than process 0; data, templates, "
                "tokenizers and the versions of judgebench and transformers must be the same on "
                "all machines."
            )

    def send(self, message: bytes) -> None:
        """Sends a message to the first process, which need not be waiting for it."""
        with watching():
            self._mail.queue_push("mail", message)
        self._sent += 1

    def mail(self) -> Iterator[bytes]:
        """The messages that the first process has received so far."""
        while self.joined and self._mail.queue_len("mail"):
            self._received += 1
            yield self._mail.queue_pop("mail")

    def all_mail(self) -> Iterator[bytes]:
        """Waits until all processes have come here, and yields to the first what they have sent;
        `Lost` where one has ended."""
        if not self.joined:
            return
        import torch
        from torch import distributed

        sent = torch.tensor([self._sent])
        with watching():
            everyone = distributed.all_reduce(sent, group=self._group, async_op=True)
            while not everyone.is_completed():
                if self.first:
                    yield from self.mail()
                time.sleep(_POLL)
            everyone.wait()
        while self.first and self._received < int(sent):
            self._received += 1
            yield self._mail.queue_pop("mail")

    @contextmanager
    def watched(self, beat: float = _BEAT, silence: float = _SILENCE) -> Iterator[None]:
        """Ends this process with a sentence and code 2 if another process ends within the block;
        all enter it together.

        Collectives between GPUs do not notice that a process has ended: its peers would wait for
        half an hour."""
        if not self.joined:
            yield
            return
        from torch import distributed

        self._watches += 1
        name = f"alive/{self._watches}"
        mail = distributed.TCPStore(
            self._mail.host, self._mail.port, is_master=False, wait_for_workers=False
        )
        over = threading.Event()

        def look() -> None:
            """Gives signs of life until it is over, and looks for those of the others."""
            keys = [f"{name}/{rank}" for rank in range(self.count)]
            last: dict[int, tuple[bytes, int]] = {}
            count = 0
            try:
                while not over.wait(beat if count else 0.0):
                    count += 1
                    mail.compare_set(
                        keys[self.rank], str(count - 1) if count > 1 else "", str(count)
                    )
                    for rank, key in enumerate(keys):
                        sign = mail.get(key) if mail.check([key]) else b""
                        if sign != last.get(rank, (None, 0))[0]:
                            last[rank] = (sign, count)
                        # looks, not seconds: a run that was suspended has missed none
                        elif sign != _LEFT and (count - last[rank][1]) * beat > silence:
                            raise RuntimeError(
                                f"process {rank} has given no sign of life for {silence:.0f} s"
                            )
            except RuntimeError as error:
                if not over.is_set():
                    print_safely(f"judgebench: {_ended(error)}", error=True)
                    # the main thread is inside a collective, from which no exception brings it back
                    os._exit(2)

        watch = threading.Thread(target=look, daemon=True)
        watch.start()
        try:
            yield
            # after an error this stays out, and the others end too
            mail.set(f"{name}/{self.rank}", _LEFT.decode())
        finally:
            over.set()
            watch.join()

    def _gathered(self, value: Any) -> list[Any]:
        from torch import distributed

        values: list[Any] = [None] * self.count
        with watching():
            distributed.all_gather_object(values, value, group=self._group)
        return values

    def _broadcast(self, value: Any) -> Any:
        from torch import distributed

        values = [value]
        with watching():
            distributed.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def _connect(self, strategy: Any) -> None:
        from torch import distributed

        environment = strategy.cluster_environment
        device = strategy.root_device
        os.environ["MASTER_ADDR"] = environment.main_address
        os.environ["MASTER_PORT"] = str(environment.main_port)
        on_gpu = device.type == "cuda"
        if not distributed.is_initialized():
            distributed.init_process_group(
                strategy.process_group_backend or ("nccl" if on_gpu else "gloo"),
                rank=environment.global_rank(),
                world_size=environment.world_size(),
                timeout=_CONNECT,
                device_id=device if on_gpu else None,
            )
            atexit.register(
                lambda: distributed.is_initialized() and distributed.destroy_process_group()
            )
        # messages travel by a group of their own: between CPUs, on any device that computes, and
        # without a limit to patience
        self._group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        mail = None
        if self.first:
            mail = distributed.TCPStore(
                environment.main_address, 0, is_master=True, wait_for_workers=False
            )
        port = self._broadcast(mail.port if mail is not None else None)
        if mail is None:
            mail = distributed.TCPStore(
                environment.main_address, port, is_master=False, wait_for_workers=False
            )
        self._mail = mail


_runs = [Processes()]


def begin_group(trainer: L.Trainer | NullTrainer) -> Processes:
    """Begins a run under this trainer, and gives its processes, as `process_group` does from now
    on."""
    _runs[:] = [Processes(trainer)]
    return process_group()


def join_group(trainer: L.Trainer) -> Processes:
    """Connects the processes of a trainer that is about to read, and gives them. Whoever has made
    the trainer, as in a script of plain Lightning, need not have begun a run under it."""
    processes = process_group()
    if processes.strategy is not trainer.strategy:
        processes = begin_group(trainer)
    processes.join()
    return processes


def process_group() -> Processes:
    """The processes of the run that has begun; one where none has."""
    return _runs[0]


@contextmanager
def watching() -> Iterator[None]:
    """Turns an error of communication into `Lost`: between processes all goes well unless one of
    them has ended."""
    try:
        yield
    except RuntimeError as error:
        raise Lost(_ended(error)) from error


def _ended(error: Exception) -> str:
    return (
        "trainer: another process of this run has ended, so this one ends too. What was stored "
        f"stays; the same command goes on from there ({' '.join(str(error).split())[:200]})."
    )
