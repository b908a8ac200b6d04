"""The engine for several machines: Ray Data (extra `[ray]`), the same `Looker` as an actor, the same rows."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from types import ModuleType

import numpy as np

from ...core.errors import InputError
from .looker import Columns, Looker, LookerOptions
from .rows import Keys, Todo

# Readers for each worker: shares of the input that are gone through side by side.
READERS = 2
# Times that a batch is tried on other workers, before its pictures are taken to be what kills them.
RETRIES = 5
READER_CPUS = 0.5


def ray_missing() -> str:
    return "" if find_spec("ray") is not None else "--engine ray needs Ray; pip install 'ray[data]' pyarrow"


def connect() -> ModuleType:
    """Ray, on the cluster that RAY_ADDRESS names, or its own on this machine; `shutdown` ends only its own."""
    if ray_missing():
        raise InputError(ray_missing())
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray = import_module("ray")
    address = os.environ.get("RAY_ADDRESS")
    own: dict[str, object] = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", logging_level="error", log_to_driver=False, **own)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"no Ray at RAY_ADDRESS={address} ({reason}); unset it to start one here") from error
    data = import_module("ray.data")
    data.DataContext.get_current().enable_progress_bars = False  # the command has its own
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # once more: importing it sets its own
    return ray


def look_on_ray(
    todo: Todo, done: np.ndarray, ways: LookerOptions, workers: int | None, at_once: int
) -> Iterator[Columns]:
    """Columns of results, batch by batch. done: (n,) uint64, keys of rows that are written already."""
    ray = connect()
    try:
        data = import_module("ray.data")
        cpus = float(ray.cluster_resources().get("CPU", 1))
        workers = workers or max(1, int(cpus) - 1)
        gpus = 1 if ways.options.device.startswith("cuda") else None
        readers = workers * READERS
        rows = data.read_datasource(
            source_of(todo, ray.put(done), at_once),
            override_num_blocks=readers,
            num_cpus=READER_CPUS,
        )
        # Ray joins small blocks to large ones, which one worker then has for itself and loses whole.
        rows = rows.repartition(target_num_rows_per_block=at_once)
        found = rows.map_batches(
            Looker,
            fn_constructor_args=(ways,),
            batch_size=at_once,
            batch_format="numpy",
            compute=data.ActorPoolStrategy(size=workers),
            # One core is left to those who read and cut blocks, or they wait for the workers for ever, and these for
            # rows.
            num_cpus=0 if gpus else min(1.0, math.floor(100 * (cpus - 1) / workers) / 100),
            num_gpus=gpus,
            ray_remote_args_fn=lambda: {"max_restarts": -1, "max_task_retries": RETRIES},
        )
        yield from found.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=1)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "ray":
            raise
        reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
        raise InputError(f"Ray gave up ({reason.strip()[:300]}); what is written stays, try --engine local") from error
    finally:
        ray.shutdown()


def source_of(todo: Todo, done: object, at_once: int) -> object:
    """A datasource of Ray's: every reader goes through its share of what is not written yet."""
    datasource = import_module("ray.data").Datasource
    read_task = import_module("ray.data.datasource").ReadTask
    metadata = import_module("ray.data.block").BlockMetadata

    class Rows(datasource):
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: object, **__: object) -> list[object]:
            return [
                read_task(
                    lambda part=part: blocks(todo, done, (part, parallelism), at_once),
                    metadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None),
                )
                for part in range(parallelism)
            ]

    return Rows()


def blocks(todo: Todo, done: object, share: tuple[int, int], at_once: int) -> Iterator[object]:
    """Tables of rows that are not written yet."""
    pa = import_module("pyarrow")
    known = Keys(import_module("ray").get(done))
    waiting = (row for row in todo.rows(share) if row.key not in known)
    schema = pa.schema([("path", pa.string()), ("query", pa.string()), ("data", pa.binary())])
    while rows := list(islice(waiting, at_once)):
        yield pa.Table.from_pylist([row._asdict() for row in rows], schema)
