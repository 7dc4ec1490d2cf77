"""Which rows stand for all: the public door to the ways of drawing landmarks."""

from stopwise.engine.landmarks.sampling import Leverage, Uniform

__all__ = ["Leverage", "Uniform"]
