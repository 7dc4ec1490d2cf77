"""Operators: what is K V, and what is its trace?"""

from stopwise.operators.base import Operator
from stopwise.operators.dense import Dense

__all__ = ["Dense", "Operator"]
