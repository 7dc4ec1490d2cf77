"""Operators: what is K V, and what is its trace?"""

from stopwise.engine.operators.held_matrix import Dense
from stopwise.engine.operators.operator import Operator

__all__ = ["Dense", "Operator"]
