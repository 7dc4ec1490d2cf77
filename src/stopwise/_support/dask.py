"""The one door to dask."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from stopwise._support.optional import optional
from stopwise._support.threads import thread_count

if TYPE_CHECKING:
    from dask.base import DaskMethodsMixin
    from dask.delayed import Delayed as Delayed
    from distributed import Client as Client
    from distributed import Future as Future

    Collection: TypeAlias = DaskMethodsMixin
else:  # dask is optional, and none of its types is needed to run
    Client = Collection = Delayed = Future = Any

_GRAPH_LIMIT = "256 MiB"
"""Landmarks travel inside the graph, so that a worker's death cannot lose them; dask's own limit warns at 10 MB."""


def dask(part: str = "dask") -> Any:
    """A module of dask ("dask", "dask.array", "distributed", ...)."""
    return optional(part, "this", "dask", ", or pass numpy arrays")


def is_dask(value: object) -> bool:
    """Whether a value is a dask collection (array, dataframe, series), asked without importing dask."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "dask")


def is_frame(value: object) -> bool:
    """Whether a dask collection is a dataframe or a series."""
    return is_dask(value) and all(hasattr(value, name) for name in ("to_delayed", "npartitions", "divisions"))


@contextmanager
def connected(n_jobs: int | None = None) -> Iterator[Client]:
    """The client that the user has connected, or a local cluster of one thread a core while the block lasts.

    Threads, not processes: a script without a `__main__` guard would start itself again in each process, and the
    products that take the time release Python's lock.
    """
    distributed = dask("distributed")
    try:
        client = distributed.default_client()
    except ValueError:
        client = None
    with dask().config.set({"distributed.admin.large-graph-warning-threshold": _GRAPH_LIMIT}):
        if client is not None:
            yield client
            return
        with (
            distributed.LocalCluster(
                n_workers=thread_count(n_jobs),
                threads_per_worker=1,
                processes=False,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster) as own,
        ):
            yield own
