"""The tables of ibis' tests: the columns that these tests demand, and rows of our own, also as files."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

ALLTYPES_START, ALLTYPES_DAYS, ALLTYPES_A_DAY = dt.date(2009, 1, 1), 730, 10
PLAYERS, SEASONS = 700, 8
LEAGUES, TEAMS = ("AL", "NL"), ("BOS", "CHA", "CLE", "DET", "NYA", "SLN", "PIT", "PHI")
CUTS, CLARITIES = ("Fair", "Good", "Very Good", "Premium", "Ideal"), ("I1", "SI1", "SI2", "VS1", "VS2", "IF")
AWARDS = ("Gold Glove", "Most Valuable Player", "Rookie of the Year", "Silver Slugger", "TSN All-Star", "Triple Crown")
COUNTS = ("G", "AB", "R", "H", "X2B", "X3B", "HR", "RBI", "SB", "CS", "BB", "SO", "IBB", "HBP", "SH", "SF", "GIDP")


def functional_alltypes() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number in range(ALLTYPES_DAYS * ALLTYPES_A_DAY):
        day = ALLTYPES_START + dt.timedelta(days=number // ALLTYPES_A_DAY)
        digit, minutes = number % 10, (day.day - 1) * ALLTYPES_A_DAY + number % 10
        moment = dt.datetime.combine(day, dt.time()) + dt.timedelta(minutes=minutes, milliseconds=10 * minutes)
        rows.append({
            "id": number, "bool_col": number % 2 == 0, "tinyint_col": digit, "smallint_col": digit, "int_col": digit,
            "bigint_col": 10 * digit, "float_col": 1.1 * digit, "double_col": 10.1 * digit,
            "date_string_col": f"{day:%m/%d/%y}", "string_col": str(digit), "timestamp_col": moment,
            "year": day.year, "month": day.month,
        })  # fmt: skip
    return rows


def diamonds(draw: random.Random) -> list[dict[str, object]]:
    return [
        {
            "carat": round(draw.uniform(0.2, 5), 2), "cut": draw.choice(CUTS), "color": draw.choice("DEFGHIJ"),
            "clarity": draw.choice(CLARITIES), "depth": round(draw.uniform(43, 79), 1),
            "table": draw.randint(43, 95) + 0.5, "price": draw.randint(326, 18_823),
            "x": round(draw.uniform(3, 10), 2), "y": round(draw.uniform(3, 10), 2), "z": round(draw.uniform(2, 7), 2),
        }
        for _ in range(5_000)
    ]  # fmt: skip


def batting(draw: random.Random) -> list[dict[str, object]]:
    rows = []
    for player in range(PLAYERS):
        first = draw.randint(1871, 2010)
        for season in range(draw.randint(1, SEASONS)):
            counts = {name: draw.randint(0, 200) for name in COUNTS}
            rows.append({
                "playerID": f"player{player:03}", "yearID": first + season, "stint": 1, "teamID": draw.choice(TEAMS),
                "lgID": draw.choice(LEAGUES), **counts,
            })  # fmt: skip
    return rows


def awards_players(draw: random.Random) -> list[dict[str, object]]:
    """Return awards, of which a player gets each once in a year."""
    places = [(draw.randrange(PLAYERS), draw.choice(AWARDS), draw.randint(1877, 2016)) for _ in range(2_000)]
    return [
        {
            "playerID": f"player{player:03}", "awardID": award, "yearID": year, "lgID": draw.choice([*LEAGUES, "ML"]),
            "tie": draw.choice([None, None, "Y"]), "notes": draw.choice([None, "1B", "C", "OF", "P"]),
        }
        for player, award, year in dict.fromkeys(places)
    ]  # fmt: skip


def astronauts(draw: random.Random, schema: pa.Schema) -> list[dict[str, object]]:
    def value(name: str, type_: pa.DataType) -> object:
        if pa.types.is_integer(type_):
            return draw.randint(1921, 2020) if name.startswith("year") else draw.randint(1, 600)
        return round(draw.uniform(0, 900), 2) if pa.types.is_floating(type_) else f"{name} {draw.randrange(40)}"

    return [{each.name: value(each.name, each.type) for each in schema} for _ in range(1_277)]


def tables(schemas: dict[str, pa.Schema]) -> dict[str, pa.Table]:
    """Return the rows of each table, the same in every run. schemas: the columns that ibis names."""
    draw = random.Random(58)
    rows = {
        "functional_alltypes": functional_alltypes(), "diamonds": diamonds(draw), "batting": batting(draw),
        "awards_players": awards_players(draw), "astronauts": astronauts(draw, schemas["astronauts"]),
    }  # fmt: skip
    return {name: pa.Table.from_pylist(rows[name], schema) for name, schema in schemas.items()}


def write_files(folder: Path, found: dict[str, pa.Table]) -> None:
    """Write each table as a file of Parquet and of CSV."""
    for kind in ("parquet", "csv"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, table in found.items():
        pq.write_table(table, folder / "parquet" / f"{name}.parquet")
        pacsv.write_csv(table, folder / "csv" / f"{name}.csv")


NESTED = """
CREATE TABLE array_types (
    x BIGINT[], y VARCHAR[], z DOUBLE[], grouper VARCHAR, scalar_column DOUBLE, multi_dim BIGINT[][]
);
CREATE TABLE struct (abc STRUCT(a DOUBLE, b VARCHAR, c BIGINT));
CREATE TABLE json_t (rowid BIGINT, js JSON);
CREATE TABLE map (idx BIGINT, kv MAP(VARCHAR, BIGINT));
INSERT INTO map VALUES (1, MAP {'a': 1, 'b': 2, 'c': 3}), (2, MAP {'d': 4, 'e': 5, 'f': 6});
CREATE TABLE win (g VARCHAR, x BIGINT NOT NULL, y BIGINT);
CREATE TABLE topk (x BIGINT)
"""
