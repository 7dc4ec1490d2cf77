"""From the columns of a table to rows of features: what an encoder learned, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from stopwise.tables.encodings import Categories, Dates, Encoding, Floats, Numbers
from stopwise.tables.names import quoted, shown, told_apart
from stopwise.tables.table import Kind, Mask, Table, TableError


@dataclass(frozen=True)
class Encoded:
    """Rows of features, which rows had a gap, and which held a level never seen in training."""

    matrix: Floats
    missing: Mask
    unseen: Mask


@dataclass(frozen=True)
class Recipe:
    """How each column that is used becomes features, in order."""

    encodings: tuple[Encoding, ...]

    @property
    def names(self) -> list[str]:
        """The columns that a table must have."""
        return [encoding.name for encoding in self.encodings]

    @property
    def kinds(self) -> dict[str, Kind]:
        """What each column must hold."""
        return {encoding.name: encoding.kind for encoding in self.encodings}

    @property
    def features(self) -> list[str]:
        """One name per feature, such as "colour=red"; no two are the same."""
        return told_apart([name for encoding in self.encodings for group in encoding.groups for name in group])

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Features that share a length scale: the levels of one column, the sine and cosine of one cycle."""
        sizes = [len(group) for encoding in self.encodings for group in encoding.groups]
        ends = np.cumsum(sizes).tolist()
        return [tuple(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]

    @property
    def plain(self) -> bool:
        """Whether every column is numbers and is a feature as it is: rows by position mean the same."""
        return all(isinstance(encoding, Numbers) and not encoding.flag for encoding in self.encodings)

    @property
    def sentence(self) -> str:
        """What became of the columns, in words."""
        said = [f"{sum(isinstance(e, Numbers) and not e.boolean for e in self.encodings)} of numbers"]
        said += [f"{sum(isinstance(e, Numbers) and e.boolean for e in self.encodings)} of true or false"]
        text = [encoding for encoding in self.encodings if isinstance(encoding, Categories)]
        levels = ", ".join(f"'{shown(encoding.name)}' {len(encoding.labels)}" for encoding in text[:5])
        said += [f"{len(text)} of text (levels: {levels}{', ...' if len(text) > 5 else ''})"]
        said += [f"dates '{shown(e.name)}' ({', '.join(e.parts)})" for e in self.encodings if isinstance(e, Dates)]
        flagged = [encoding.name for encoding in self.encodings if encoding.flag]
        said += [f"a feature for gaps in {quoted(flagged)}"] if flagged else []
        return ", ".join(part for part in said if not part.startswith("0 "))

    @property
    def shared_scales(self) -> tuple[tuple[int, ...], ...]:
        """The groups of more than one feature."""
        return tuple(group for group in self.groups if len(group) > 1)

    def encode(self, table: Table) -> Encoded:
        """The features of a table, and where gaps and levels never seen were met."""
        absent = [name for name in self.names if name not in table.columns]
        if absent:
            raise TableError(f"the table lacks columns of the fit: {quoted(absent)}")
        made = [encoding.encode(table.columns[encoding.name]) for encoding in self.encodings]
        matrix = np.concatenate([features for features, _ in made], axis=1)
        return Encoded(matrix, self.gaps(table), np.logical_or.reduce([unseen for _, unseen in made]))

    def unknown_text(self, matrix: Floats) -> list[tuple[str, str, int]]:
        """Columns of text where rows of features are none of the levels: what such rows may hold, and how many do."""
        starts = np.cumsum([0, *(sum(map(len, encoding.groups)) for encoding in self.encodings)])
        found = []
        for encoding, start, end in zip(self.encodings, starts, starts[1:], strict=False):
            if isinstance(encoding, Categories) and (none := int((~matrix[:, start:end].any(axis=1)).sum())):
                unknown = ["text"] * (not encoding.pooled) + ["a gap"] * (not encoding.flag)
                found.append((encoding.name, " or ".join(unknown), none))
        return found

    def gaps(self, table: Table) -> Mask:
        """Rows with a gap in a column that is used."""
        return cast(Mask, np.logical_or.reduce([table.columns[name].missing for name in self.names]))


class FeatureMatrix(np.ndarray[tuple[int, int], np.dtype[np.float64]]):
    """A matrix that remembers which of its columns share a length scale, as long as it has all of them in order."""

    groups: tuple[tuple[int, ...], ...] = ()

    def __array_finalize__(self, source: object) -> None:
        same = self.ndim == 2 and getattr(source, "shape", ())[1:] == self.shape[1:]
        self.groups = getattr(source, "groups", ()) if same else ()

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key] if isinstance(key, tuple) else super().__getitem__(key)


def shared_by(values: object) -> tuple[tuple[int, ...], ...]:
    """Groups of columns that share a length scale, as far as a matrix remembers any."""
    return values.groups if isinstance(values, FeatureMatrix) else ()


@dataclass(frozen=True)
class EncodedFrame:
    """A frame's features as a matrix, the columns they were made from, and how."""

    matrix: Floats
    columns: tuple[str, ...]
    recipe: Recipe

    @property
    def feature_names(self) -> npt.NDArray[np.object_]:
        """One name per feature."""
        return np.array(self.recipe.features, dtype=object)

    def __len__(self) -> int:
        return len(self.matrix)


@dataclass(frozen=True)
class FittedTable:
    """What a model file says of the table that the model was fitted to: its target, and the column that names rows."""

    target: str | None
    id: str | None = None
