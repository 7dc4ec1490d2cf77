"""Tables: from files and frames to rows of numbers, names and all."""

from stopwise.tables.column_types import Reading
from stopwise.tables.encoder import MAX_LEVELS, TableEncoder
from stopwise.tables.encodings import Numbers
from stopwise.tables.names import quoted, shown, told_apart
from stopwise.tables.reading.readers import FORMATS, Asked, Tables, input_files, open_tables
from stopwise.tables.reading.sniffing import Given
from stopwise.tables.recipe import EncodedFrame, FittedTable, Recipe
from stopwise.tables.table import Column, Kind, Table, TableError
from stopwise.tables.training import MISSING, Roles, Training, labels_of_sums, prepare

__all__ = [
    "FORMATS",
    "MAX_LEVELS",
    "MISSING",
    "Asked",
    "Column",
    "EncodedFrame",
    "FittedTable",
    "Given",
    "Kind",
    "Numbers",
    "Reading",
    "Recipe",
    "Roles",
    "Table",
    "TableEncoder",
    "TableError",
    "Tables",
    "Training",
    "input_files",
    "labels_of_sums",
    "open_tables",
    "prepare",
    "quoted",
    "shown",
    "told_apart",
]
