"""Tables damaged in every way, through `stopwise fit` and `stopwise predict`: an answer, or one line and code 2."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pandas as pd
import pytest

from commands import run
from hostile import watchdog
from stopwise.tables import TableError, open_tables

FILES = 12
DEEP_FILES = 160
rng0 = np.random.default_rng(11)
ROWS = "".join(f"{a:.6f},{b:.3f},{'red' if a > 0.5 else 'blue'},{a + b:.6f}\n" for a, b in rng0.uniform(size=(30, 2)))
TABLE = ("a,b,colour,y\n" + ROWS).encode()


def read(path):
    with open_tables(path) as tables:
        return tables.whole()


def flip(rng, content):
    out = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        out[rng.integers(len(out))] ^= 1 << rng.integers(8)
    return bytes(out)


def cut(rng, content):
    return content[: rng.integers(len(content))]


def insert(rng, content):
    at = rng.integers(len(content))
    return content[:at] + rng.bytes(rng.integers(1, 400)) + content[at:]


def remove(rng, content):
    at = rng.integers(len(content))
    return content[:at] + content[at + rng.integers(1, 40) :]


MARKS = b'",\n\r;\t\0 \\-+eEnN'


def marks(rng, content):
    """Characters that mean something to a reader of tables."""
    out = bytearray(content)
    for _ in range(rng.integers(1, 12)):
        out[rng.integers(len(out))] = MARKS[rng.integers(len(MARKS))]
    return bytes(out)


def fields(rng, content):
    """Values that mean something to a reader of numbers."""
    words = [
        "",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1e999",
        "1e308",
        "-0",
        "0x1F",
        "1_000",
        "1,5",
        "NULL",
        "true",
        "é",
        "1" * 400,
    ]
    lines = content.decode().splitlines()
    for _ in range(rng.integers(1, 5)):
        row = rng.integers(len(lines))
        parts = lines[row].split(",")
        parts[rng.integers(len(parts))] = words[rng.integers(len(words))]
        lines[row] = ",".join(parts)
    return "\n".join(lines).encode()


def long(rng, content):
    """One field, line or header far longer than any other."""
    at = rng.integers(len(content))
    return content[:at] + b"x," * int(rng.integers(1, 40_000)) + content[at:]


def encoded(rng, content):
    return content.decode().encode(str(rng.choice(["utf-16", "utf-32", "cp037", "utf-8-sig", "utf-16-be"])))


def noise(rng, content):
    return rng.bytes(rng.integers(0, 3000))


def packed(pack, damage):
    def both(rng, content):
        return damage(rng, pack(content))

    both.__name__ = f"{pack.__name__}_{damage.__name__}"
    return both


def as_zip(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
    return out.getvalue()


def as_gzip(content):
    return gzip.compress(content, mtime=0)


def as_bz2(content):
    return bz2.compress(content)


def as_xz(content):
    return lzma.compress(content)


def as_parquet(content):
    out = io.BytesIO()
    pd.read_csv(io.BytesIO(content)).to_parquet(out)
    return out.getvalue()


KINDS = {
    damage.__name__: (damage, "csv") for damage in (flip, cut, insert, remove, marks, fields, long, encoded, noise)
}
SUFFIXES = ((as_gzip, "csv.gz"), (as_bz2, "csv.bz2"), (as_xz, "csv.xz"), (as_zip, "csv.zip"), (as_parquet, "parquet"))
for pack, suffix in SUFFIXES:
    for change in (flip, cut):
        KINDS[f"{pack.__name__} {change.__name__}"] = (packed(pack, change), suffix)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "table.csv").write_bytes(TABLE)
    out = folder / "m.stopwise"
    words = ("--target", "y", "--kernel", "linear", "--out", str(out))
    assert run("fit", str(folder / "table.csv"), *words).exit_code == 0
    return out


def ended_well(result):
    """An answer without NaN, or one line."""
    assert result.exit_code in (0, 2), result.output
    if result.exit_code == 2:
        assert result.stderr.startswith("stopwise: ")
        assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    assert "nan" not in result.stdout.lower()
    return result.exit_code == 2


def damage_many(model, folder, kind, seed, count):
    (damage, suffix), rng, refused = KINDS[kind], np.random.default_rng(seed), 0
    path = folder / f"table.{suffix}"
    for _ in range(count):
        path.write_bytes(damage(rng, TABLE))
        with watchdog(20):
            refused += ended_well(run("fit", str(path), "--target", "y", "--kernel", "linear", "--json"))
            ended_well(run("predict", str(model), str(path), "--missing", "impute"))
    return refused


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_table_is_one_line_or_an_answer(model, tmp_path, kind):
    assert damage_many(model, tmp_path, kind, 1, FILES) > 0


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_many_more_damaged_tables_are_one_line_or_an_answer(model, tmp_path, kind):
    assert damage_many(model, tmp_path, kind, 2, DEEP_FILES) > 0


def bomb(path, suffix, size):
    openers = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    if suffix == "zip":
        path.write_bytes(as_zip(b"a,y\n" + b"0,0\n" * (size // 4)))
    else:
        with openers[suffix](path, "wb") as out:
            out.write(b"a,y\n" + b"0,0\n" * (size // 4))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip"])
def test_a_file_that_unpacks_to_far_more_than_a_table_is_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("stopwise.tables.reading.opening.UNPACKED", 2**20)
    monkeypatch.setattr("stopwise.tables.reading.opening.RATIO", 100)
    path = tmp_path / f"bomb.csv.{suffix}"
    bomb(path, suffix, 2**22)
    with watchdog(60), pytest.raises(TableError, match="unpacks to more than 100 times its size"):
        read(path)


def test_a_parquet_file_of_rows_without_end_is_refused(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr("stopwise.tables.reading.parquet.UNPACKED", 2**20)
    path = tmp_path / "bomb.parquet"
    constant = pa.chunked_array([pa.array(np.zeros(100_000))] * 40)
    pq.write_table(pa.table({"a": constant, "y": constant}), path)
    with watchdog(60), pytest.raises(TableError, match=r"4,000,000 rows of 2 columns in [0-9,]+ bytes"):
        read(path)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip", "zst"])
def test_an_honest_compressed_table_is_read(tmp_path, suffix):
    import pyarrow as pa

    packers = {"gz": as_gzip, "bz2": as_bz2, "xz": as_xz, "zip": as_zip}
    path = tmp_path / f"table.csv.{suffix}"
    path.write_bytes(packers[suffix](TABLE) if suffix in packers else pa.compress(TABLE, "zstd", asbytes=True))
    assert len(read(path)) == 30
    assert read(path).names == ["a", "b", "colour", "y"]
