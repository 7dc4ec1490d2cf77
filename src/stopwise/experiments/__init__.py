"""The paper's simulations, vectorised over trials: does the theory hold here?

Each experiment is a file with `tasks(config)` (pure functions of configuration and seed) and `claims(rows)`; `run` does
the work, `draw` the figures, and `command` is `stopwise reproduce`.
"""

from stopwise.experiments.command import reproduce as command
from stopwise.experiments.runner import run
from stopwise.experiments.task import Config

__all__ = ["Config", "command", "run"]
