"""Operators: what is K V, and what is its trace?"""

from stopwise.engine.operators.base import Operator
from stopwise.engine.operators.held_matrix import Dense

__all__ = ["Dense", "Operator"]
