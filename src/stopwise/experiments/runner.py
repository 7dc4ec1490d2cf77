"""Running experiments: the same numbers in any company, on any number of processes, and kept when interrupted."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import joblib
from threadpoolctl import threadpool_limits

from stopwise.experiments import boosting, bounds, classes, paths, rates, ridge, robustness, rules
from stopwise.experiments.claims import Claim, as_json, as_markdown
from stopwise.experiments.tally import Row, Tally, as_csv, merged, pick
from stopwise.experiments.task import Config, Task
from stopwise.io import atomic_path

EXPERIMENTS: dict[str, ModuleType] = {
    module.NAME: module for module in (paths, rates, rules, ridge, classes, bounds, robustness, boosting)
}
"""In the order of the paper; each has `tasks(config)` and `claims(rows)`."""


@dataclass(frozen=True)
class Outcome:
    """What a run has to show. `finished` names the experiments that were run to their end."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    finished: tuple[str, ...]
    interrupted: bool
    seconds: float


def tasks_of(names: Sequence[str], config: Config) -> list[Task]:
    """All the work there is, in order; an unknown name is an error that lists the known ones."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"no experiment is called {unknown[0]!r}: there are {', '.join(EXPERIMENTS)}")
    return [task for name in EXPERIMENTS if name in names for task in EXPERIMENTS[name].tasks(config)]


def run(
    names: Sequence[str] = tuple(EXPERIMENTS),
    config: Config | None = None,
    *,
    jobs: int = 1,
    tick: Callable[[Task], None] | None = None,
) -> Outcome:
    """Run experiments; `tick` is called as each piece of work is done.

    After Ctrl-C the pieces done so far are kept: their rows say how many trials they stand for, and claims are made
    for experiments that were finished.
    """
    config, started = config or Config(), time.perf_counter()
    work = tasks_of(names, config)
    left = {name: sum(task.experiment == name for task in work) for name in EXPERIMENTS if name in names}
    done: list[Tally] = []
    interrupted = False
    try:
        for task, tallies in zip(work, _results(work, jobs), strict=True):
            done += tallies
            left[task.experiment] -= 1
            if tick is not None:
                tick(task)
    except KeyboardInterrupt:
        interrupted = True
    rows = tuple(tally.row(config.seed) for tally in merged(done))
    finished = tuple(name for name, count in left.items() if count == 0)
    made = [(name, c) for name in finished for c in EXPERIMENTS[name].claims(pick(rows, experiment=name))]
    claims = tuple(replace(claim, command=f"stopwise reproduce {name}") for name, claim in made)
    return Outcome(rows, claims, finished, interrupted, time.perf_counter() - started)


def _results(work: Sequence[Task], jobs: int) -> Iterator[list[Tally]]:
    if jobs == 1:
        yield from (_call(task) for task in work)
    else:
        yield from joblib.Parallel(n_jobs=jobs, return_as="generator")(joblib.delayed(_call)(task) for task in work)


def _call(task: Task) -> list[Tally]:
    # One thread: sums are then added in one order, whatever the machine and the other processes.
    with threadpool_limits(1):
        return task()


def write(outcome: Outcome, config: Config, folder: Path) -> list[Path]:
    """The table and the claims, each file whole or not at all."""
    about = (
        f"Kernel regression by early-stopped descent, after Raskutti, Wainwright & Yu (JMLR 15, 2014). "
        f"{config.trials:,} trials, seed {config.seed}; standard errors in brackets, numbers without one are exact."
    )
    if outcome.interrupted:
        about += f" Interrupted: finished were {', '.join(outcome.finished) or 'none'}."
    texts = {
        "results.csv": as_csv(outcome.rows),
        "claims.json": as_json(outcome.claims),
        "claims.md": as_markdown(outcome.claims, about),
    }
    folder.mkdir(parents=True, exist_ok=True)
    return [replace_file(folder / name, text.encode()) for name, text in texts.items()]


def replace_file(target: Path, content: bytes) -> Path:
    """Write beside, then move into place."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)
    return target
