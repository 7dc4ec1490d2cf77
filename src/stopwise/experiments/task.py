"""A piece of work: a pure function of its arguments that a process can be handed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stopwise.experiments.tally import Tally

CHUNK = 2_500
"""Trials done at once: few enough for memory, many enough for matrix products."""


@dataclass(frozen=True)
class Config:
    """What `stopwise reproduce` may vary. `sizes` and `alphas` left out are each experiment's own."""

    trials: int = 10_000
    seed: int = 0
    sizes: tuple[int, ...] | None = None
    alphas: tuple[float, ...] | None = None
    extra_rules: tuple[Any, ...] = ()
    """More rules for the experiments that compare rules, each a row and a curve."""

    def __post_init__(self) -> None:
        if self.trials < 2:
            raise ValueError(f"trials must be at least 2, got {self.trials}: one draw has no standard error")
        if self.sizes is not None and not (self.sizes and all(4 <= n <= 3000 for n in self.sizes)):
            raise ValueError(f"sample sizes must lie between 4 and 3000, got {self.sizes}")
        if self.alphas is not None and not (self.alphas and all(0 < a <= 1 for a in self.alphas)):
            raise ValueError(f"step sizes must lie above 0 and at most 1, got {self.alphas}")

    def chunks(self) -> Iterator[tuple[int, int]]:
        """(index, trials) of each chunk."""
        left, index = self.trials, 0
        while left > 0:
            # No chunk of a single trial: its spread could not be told.
            size = left if left <= CHUNK + 1 else CHUNK
            yield index, size
            left, index = left - size, index + 1


@dataclass(frozen=True)
class Task:
    """One call, with the trials it stands for in a progress bar."""

    experiment: str
    function: Callable[..., list[Tally]]
    arguments: tuple[Any, ...]
    trials: int = 0

    def __call__(self) -> list[Tally]:
        return self.function(*self.arguments)


def by_chunk(config: Config, experiment: str, function: Callable[..., list[Tally]], *arguments: Any) -> list[Task]:
    """A task for each chunk of trials: the arguments, then seed, index and size."""
    return [Task(experiment, function, (*arguments, config.seed, i, size), size) for i, size in config.chunks()]
