"""Tables: from files of columns to matrices of numbers, names and all."""

from stopwise.tables.columns import MAX_LEVELS, Columns, Numeric, Text
from stopwise.tables.names import quoted, shown, told_apart
from stopwise.tables.sources import FORMATS, Source, TableError, find_sources, read_whole
from stopwise.tables.training import MISSING, Training, prepare, read_training

__all__ = [
    "FORMATS",
    "MAX_LEVELS",
    "MISSING",
    "Columns",
    "Numeric",
    "Source",
    "TableError",
    "Text",
    "Training",
    "find_sources",
    "prepare",
    "quoted",
    "read_training",
    "read_whole",
    "shown",
    "told_apart",
]
