"""Tables as people have them, one awkwardness or several each, all of the same numbers.

python tests/tables/awkward.py FOLDER [--rows N] writes them. Every one fits and predicts with `--target y` alone.
"""

import argparse
import bz2
import csv
import datetime as dt
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import numpy as np

ROWS = 60
TARGET = "y"


def numbers(rows=ROWS):
    """Columns size, weight, kind and day, and a target that they explain."""
    rng = np.random.default_rng(1901)
    size, weight = rng.uniform(1, 9, rows).round(3), rng.normal(70, 9, rows).round(2)
    kind = rng.choice(["oak", "ash", "elm"], rows)
    day = [dt.date(2021, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 900, rows)]
    season = np.cos(2 * np.pi * np.array([d.timetuple().tm_yday for d in day]) / 365.25)
    y = (np.sin(size) * 3 + 0.05 * weight + (kind == "oak") + season + 0.1 * rng.normal(size=rows)).round(4)
    return {"size": size.tolist(), "weight": weight.tolist(), "kind": kind.tolist(), "day": day, TARGET: y.tolist()}


def text(
    columns, *, separator=",", decimal=".", date="%Y-%m-%d", gap="", quoting=csv.QUOTE_MINIMAL, header=True, **how
):
    """The table as text."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator=how.pop("end", "\n"), **how)

    def cell(value):
        if value is None:
            return gap
        if isinstance(value, float):
            return repr(value).replace(".", decimal)
        return value.strftime(date) if isinstance(value, dt.date) else value

    writer.writerow(columns)
    writer.writerows([cell(value) for value in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue()


def with_gaps(columns, every=7):
    """Every so-many-th cell of each column but the target missing."""
    out = {name: list(values) for name, values in columns.items()}
    for at, name in enumerate(name for name in columns if name != TARGET):
        out[name][at::every] = [None] * len(out[name][at::every])
    return out


def renamed(columns, **names):
    return {names.get(name, name): values for name, values in columns.items()}


def with_column(columns, name, values):
    return {name: list(values), **columns}


def grouped(value):
    """1234.5 as 1.234,5."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def spaced(columns):
    lines = ["  ".join(f"{name:>10}" for name in columns)]
    lines += ["  ".join(f"{value!s:>10}" for value in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def by_r(columns):
    """As R's write.table writes it: a header that is one short, names of rows in quotes."""
    lines = [" ".join(f'"{name}"' for name in columns)]
    for at, row in enumerate(zip(*columns.values(), strict=True), start=1):
        lines.append(" ".join([f'"{at}"', *(f'"{v}"' if isinstance(v, str | dt.date) else repr(v) for v in row)]))
    return "\n".join(lines) + "\n"


def texts(rows=ROWS):
    """Text tables by name: bytes."""
    c = numbers(rows)
    n = len(c[TARGET])
    german = renamed(c, size="Größe", kind="Baumart") | {}
    german["Baumart"] = [{"oak": "Eiche", "ash": "Esche", "elm": "Rüster"}[kind] for kind in c["kind"]]
    money = c | {"weight": [f"{1000 * value:,.2f}" for value in c["weight"]]}
    euros = c | {"weight": [grouped(1000 * value) for value in c["weight"]]}
    sentences = c | {"kind": [f'{kind}, the "{kind}"\nof the wood; or so' for kind in c["kind"]]}
    truths = with_column(c, "sold", ["yes" if at % 3 else "no" for at in range(n)])
    american, british = {"date": "%m/%d/%Y"}, {"date": "%d/%m/%Y"}
    stamps = c | {"day": [f"{day} {at % 24:02d}:{at * 7 % 60:02d}:00" for at, day in enumerate(c["day"])]}
    half = c | {"day": [f"{day:%m/%d/%Y} {at % 12 + 1}:30 {'AP'[at % 2]}M" for at, day in enumerate(c["day"])]}
    marks = text(with_gaps(c), gap="NA").replace("NA", "?", 20)
    return {
        "plain.csv": text(c).encode(),
        "semicolons.csv": text(c, separator=";").encode(),
        "tabs.tsv": text(c, separator="\t").encode(),
        "bars.txt": text(c, separator="|").encode(),
        "blanks.dat": spaced(c).encode(),
        "european.csv": text(c, separator=";", decimal=",", date="%d.%m.%Y").encode(),
        "european_quoted_commas.csv": text(c, decimal=",", quoting=csv.QUOTE_ALL, date="%d.%m.%Y").encode(),
        "german_windows.csv": text(german, separator=";", decimal=",", date="%d.%m.%Y", end="\r\n").encode("cp1252"),
        "german_utf16.csv": text(german, separator="\t", decimal=",").encode("utf-16"),
        "german_excel.csv": b"\xef\xbb\xbf" + text(german, separator=";", decimal=",").encode(),
        "utf16_without_mark.csv": text(german).encode("utf-16-le"),
        "thousands.csv": text(money).encode(),
        "thousands_european.csv": text(euros, separator=";", decimal=",").encode(),
        "blank_lines_first.csv": ("\n\n   \n" + text(c)).encode(),
        "title_first.csv": ("Forest report 2021\nprinted in May\n\n" + text(c)).encode(),
        "comments_first.csv": ("# measured by hand\n# units: m, kg\n" + text(c)).encode(),
        "separator_announced.csv": ("sep=;\n" + text(c, separator=";")).encode(),
        "separators_at_the_end.csv": text(c, separator=";").replace("\n", ";\n").encode(),
        "quotes_and_line_breaks.csv": text(sentences).encode(),
        "single_quotes.csv": text(sentences, quotechar="'", quoting=csv.QUOTE_NONNUMERIC).encode(),
        "backslashes.csv": text(sentences, doublequote=False, escapechar="\\").encode(),
        "old_mac.csv": text(c, end="\r").encode(),
        "gaps.csv": text(with_gaps(c)).encode(),
        "gaps_as_na.csv": text(with_gaps(c), gap="NA").encode(),
        "gaps_as_question_marks.csv": marks.encode(),
        "gaps_in_target.csv": text(c | {TARGET: [None, *c[TARGET][1:]]}).encode(),
        "american_dates.csv": text(c, **american).encode(),
        "british_dates.csv": text(c, **british).encode(),
        "month_names.csv": text(c, date="%d %b %Y").encode(),
        "compact_dates.csv": text(c, date="%Y%m%d").encode(),
        "stamps.csv": text(stamps).encode(),
        "half_days.csv": text(half).encode(),
        "booleans.csv": text(truths).encode(),
        "ids.csv": text(with_column(c, "name", (f"tree {at}" for at in range(n)))).encode(),
        "pandas_index.csv": text(with_column(c, "", range(n))).encode(),
        "written_by_r.txt": by_r(c).encode(),
        "duplicate_rows.csv": text({name: 2 * list(values) for name, values in c.items()}).encode(),
        "constant_columns.csv": text(with_column(with_column(c, "one", [1.0] * n), "same", ["x"] * n)).encode(),
        "empty_column.csv": text(with_column(c, "remarks", [None] * n)).encode(),
        "many_levels.csv": text(with_column(c, "place", (f"p{at * at % 29}" for at in range(n)))).encode(),
        "wide_header.csv": text(renamed(c, size="s" * 1_200_000)).encode(),
        "long_cell.csv": text(c | {"kind": ["a" * 1_100_000, *c["kind"][1:]]}).encode(),
    }


def archives(rows=ROWS):
    """Packed tables by name: bytes."""
    plain = texts(rows)["european.csv"]
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("inside.csv", plain)
    return {
        "packed.csv.gz": gzip.compress(plain),
        "packed.csv.bz2": bz2.compress(plain),
        "packed.csv.xz": lzma.compress(plain),
        "packed.csv.zip": zipped.getvalue(),
        "unnamed": plain,
        "packed_under_a_wrong_name.csv": gzip.compress(plain),
    }


def write_others(folder, rows=ROWS):
    """A spreadsheet and a Parquet file."""
    import openpyxl
    import pandas as pd

    gappy = with_gaps(numbers(rows))
    book = openpyxl.Workbook()
    book.active.title = "empty"
    sheet = book.create_sheet("trees")
    sheet.append(["a title"])
    sheet.append([])
    sheet.append(list(gappy))
    for row in zip(*gappy.values(), strict=True):
        sheet.append(row)
    book.save(folder / "sheet.xlsx")
    frame = pd.DataFrame(gappy).assign(
        day=lambda f: pd.to_datetime(f["day"]), kind=lambda f: f["kind"].astype("category")
    )
    frame.to_parquet(folder / "typed.parquet")


def write(folder, rows=ROWS):
    """All tables; their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (texts(rows) | archives(rows)).items():
        (folder / name).write_bytes(content)
    write_others(folder, rows)
    return sorted(folder.iterdir())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=ROWS)
    asked = parser.parse_args()
    print(f"{len(write(asked.folder, asked.rows))} tables in {asked.folder}")
