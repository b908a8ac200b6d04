"""Two engines that make the same rows: local processes, and Ray Data (`pip install 'ray[data]' pyarrow`)."""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any

from ...core.errors import InputError
from ...core.values import JsonObject
from ...pictures.opening import isolate
from .looker import Looker, LookerOptions, failed
from .rows import BatchRow, Todo, key_of

Rows = list[JsonObject]
# Crashes after which a picture becomes a row with an error; and failed starts of workers after which a run stops.
MOST_DEATHS = 2
# For Ray: readers for each worker, retries of a block of rows on other workers, cores of a reader.
READERS, RETRIES, READER_CPUS = 2, 5, 0.5


# ---- processes of this machine ---------------------------------------------------------------------------------------

_ways: list[LookerOptions] = []


def start_worker(ways: LookerOptions) -> None:
    """Leave Ctrl-C to the driver, and exit when the driver ends for any reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ways.append(ways)
    isolate()
    driver = multiprocessing.parent_process()
    assert driver is not None
    threading.Thread(target=lambda: (driver.join(), os._exit(1)), daemon=True).start()


@cache
def own_looker() -> Looker:
    """Return the looker of this worker, loaded with its first batch."""
    return Looker(_ways[-1])


def work(rows: tuple[BatchRow, ...]) -> Rows:
    """Make rows in a worker; without rows, only load what it needs."""
    looker = own_looker()
    return [looker(row._asdict()) for row in rows]


def start_pool(ways: LookerOptions, workers: int) -> ProcessPoolExecutor:
    """Start fresh interpreters; the first of them loads what it needs, so that a wrong model is refused here."""
    for _ in range(MOST_DEATHS):
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), start_worker, (ways,))
        with suppress(BrokenProcessPool):
            pool.submit(work, ()).result()
            return pool
    raise InputError("workers crash as they start; try --workers 1 or a smaller --model")


def look_locally(rows: Iterator[BatchRow], ways: LookerOptions, workers: int, at_once: int) -> Generator[Rows]:
    """Yield rows of results, batch by batch, in the order in which they are finished.

    If a worker crashes, the unfinished rows are repeated one by one, to find the picture that caused it. One that
    crashes its worker every time becomes a row with an error.
    """
    under_way: dict[tuple[BatchRow, ...], Future[Rows]] = {}
    others, pool = set(multiprocessing.active_children()), start_pool(ways, workers)
    try:
        while True:
            try:
                while len(under_way) < workers and (batch := tuple(islice(rows, at_once))):
                    under_way[batch] = Future()  # recorded before it is sent: a broken pool raises
                    under_way[batch] = pool.submit(work, batch)
                if not under_way:
                    return
                wait(under_way.values(), return_when=FIRST_COMPLETED)
                for batch in [batch for batch, future in under_way.items() if future.done()]:
                    result = under_way[batch].result()
                    del under_way[batch]
                    yield result
            except BrokenProcessPool:
                pool = start_pool(ways, workers)
                suspects = [row for batch in under_way for row in batch]
                under_way.clear()
                for row in suspects:
                    for _ in range(MOST_DEATHS):
                        try:
                            yield pool.submit(work, (row,)).result()
                            break
                        except BrokenProcessPool:
                            pool = start_pool(ways, workers)
                    else:
                        yield [failed(row.path, row.query, f"workers died {MOST_DEATHS} times on this picture")]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()


# ---- Ray -------------------------------------------------------------------------------------------------------------


class RayLooker(Looker):
    """A looker that returns rows as JSON text, because Ray's tables would turn their lists into arrays."""

    def __init__(self, ways: LookerOptions) -> None:
        isolate()
        super().__init__(ways)

    def __call__(self, row: JsonObject) -> JsonObject:
        return {"row": json.dumps(super().__call__(row))}


def check_ray() -> None:
    if find_spec("ray") is None:
        raise InputError("--engine ray needs Ray; pip install 'ray[data]' pyarrow")


def connect() -> tuple[Any, Any]:
    """Connect to the cluster of RAY_ADDRESS or start one; return Ray and Ray Data. `shutdown` ends only our own."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray, data = import_module("ray"), import_module("ray.data")
    address = os.environ.get("RAY_ADDRESS")
    own: dict[str, object] = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", logging_level="error", log_to_driver=False, **own)
    except Exception as error:  # Ray has no special exception for a node that does not start
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"no Ray at {address or 'this machine'} ({reason}); set RAY_ADDRESS or try --engine local"
        ) from error
    data.DataContext.get_current().enable_progress_bars = False  # the command has its own
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray, data


def look_on_ray(todo: Todo, done: set[int], ways: LookerOptions, workers: int | None, at_once: int) -> Generator[Rows]:
    """Yield rows of results as they come. done: keys of rows that are already written."""
    ray, data = connect()
    cpus = float(ray.cluster_resources().get("CPU", 1))
    workers = workers or max(1, int(cpus) - 1)
    gpus = 1 if ways.options.device.startswith("cuda") else None
    parts, known = workers * READERS, ray.put(done)

    def read(batch: JsonObject) -> Iterator[object]:
        """Yield tables of rows that are not written yet, from one reader's share of the input."""
        pa, written = import_module("pyarrow"), import_module("ray").get(known)
        schema = pa.schema([("path", pa.string()), ("query", pa.string()), ("data", pa.binary())])
        rows = (row for part in batch["id"] for row in todo.rows((int(part), parts)))
        waiting = (row for row in rows if key_of(row.path, row.query) not in written)
        while some := list(islice(waiting, at_once)):
            yield pa.Table.from_pylist([row._asdict() for row in some], schema)

    try:
        rows = data.range(parts, override_num_blocks=parts).map_batches(read, num_cpus=READER_CPUS)
        # Ray merges small blocks into large ones, which one worker processes alone and loses if it crashes.
        results = rows.repartition(target_num_rows_per_block=at_once).map(
            RayLooker,
            fn_constructor_args=(ways,),
            compute=data.ActorPoolStrategy(size=workers),
            # Leave one core for the readers; otherwise readers and workers wait for each other forever.
            num_cpus=0 if gpus else min(1.0, math.floor(100 * (cpus - 1) / workers) / 100),
            num_gpus=gpus,
            max_restarts=-1,
            max_task_retries=RETRIES,
        )
        yield from ([json.loads(row["row"])] for row in results.iter_rows())
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise InputError(f"Ray failed ({reason}); finished rows are kept, try --engine local") from error
    finally:
        ray.shutdown()
