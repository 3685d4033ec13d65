"""The five tables of the Star Schema Benchmark, derived from the rows of TPC-H and stored as Parquet files.

lineorder is lineitem joined with orders and with the cost of partsupp; dates are numbers such as 19940131. The
derivation differs from the benchmark's own generator where TPC-H lacks something:

- TPC-H has five times as many customers and suppliers, and at scale factors above 1 more parts.
- A city is the nation and a digit, which is the last one of the key. A brand is the category and a number from 1 to 40,
  which is the key of the part modulo 40, plus 1. The generator draws both.
- Category and manufacturer are those of TPC-H, renamed. The color is the first word of the part's name.
- The cost is that of partsupp; the generator computes it as 60 % of the price. The revenue is not rounded to cents.
- The holidays are New Year and Christmas. dwdate has the 2,557 days of seven years; the paper counts 2,556.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from pathlib import Path

import duckdb

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.tpch import RELATIONS
from deltamark.harness.check.oracle import sql_values

MACROS = """
CREATE MACRO datekey(day) AS (year(day) * 10000 + month(day) * 100 + day(day))::INTEGER;
CREATE MACRO city(nation, key) AS rpad(left(nation, 9), 9, ' ') || (key % 10)
"""

TABLES = {
    "customer": """
        SELECT c_custkey::INTEGER AS c_custkey, c_name, c_address, city(n_name, c_custkey) AS c_city,
               n_name AS c_nation, r_name AS c_region, c_phone, c_mktsegment
        FROM customer JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
        ORDER BY c_custkey""",
    "dwdate": """
        SELECT datekey(day) AS d_datekey, strftime(day, '%B %-d, %Y') AS d_date, dayname(day) AS d_dayofweek,
               monthname(day) AS d_month, year(day)::INTEGER AS d_year,
               (year(day) * 100 + month(day))::INTEGER AS d_yearmonthnum, strftime(day, '%b%Y') AS d_yearmonth,
               (dayofweek(day) + 1)::TINYINT AS d_daynuminweek, day(day)::TINYINT AS d_daynuminmonth,
               dayofyear(day)::SMALLINT AS d_daynuminyear, month(day)::TINYINT AS d_monthnuminyear,
               ((dayofyear(day) - 1) // 7 + 1)::TINYINT AS d_weeknuminyear,
               CASE WHEN month(day) <= 3 THEN 'Winter' WHEN month(day) = 4 THEN 'Spring'
                    WHEN month(day) <= 8 THEN 'Summer' WHEN month(day) <= 10 THEN 'Fall'
                    ELSE 'Christmas' END AS d_sellingseason,
               dayofweek(day) = 6 AS d_lastdayinweekfl, last_day(day) = day AS d_lastdayinmonthfl,
               strftime(day, '%m%d') IN ('0101', '1225') AS d_holidayfl,
               dayofweek(day) BETWEEN 1 AND 5 AS d_weekdayfl
        FROM (SELECT unnest(generate_series(DATE '1992-01-01', DATE '1998-12-31', INTERVAL 1 DAY))::DATE AS day)
        ORDER BY d_datekey""",
    "lineorder": """
        SELECT l_orderkey::INTEGER AS lo_orderkey, l_linenumber::TINYINT AS lo_linenumber,
               o_custkey::INTEGER AS lo_custkey, l_partkey::INTEGER AS lo_partkey, l_suppkey::INTEGER AS lo_suppkey,
               datekey(o_orderdate) AS lo_orderdate, o_orderpriority AS lo_orderpriority,
               o_shippriority::TINYINT AS lo_shippriority, l_quantity::TINYINT AS lo_quantity,
               l_extendedprice::DECIMAL(12, 2) AS lo_extendedprice, o_totalprice::DECIMAL(12, 2) AS lo_ordtotalprice,
               (l_discount * 100)::TINYINT AS lo_discount,
               (l_extendedprice * (1 - l_discount))::DECIMAL(14, 4) AS lo_revenue,
               ps_supplycost::DECIMAL(12, 2) AS lo_supplycost, (l_tax * 100)::TINYINT AS lo_tax,
               datekey(l_commitdate) AS lo_commitdate, l_shipmode AS lo_shipmode
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey
             JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
        ORDER BY lo_orderkey, lo_linenumber""",
    "part": """
        SELECT p_partkey::INTEGER AS p_partkey, p_name, replace(p_mfgr, 'Manufacturer', 'MFGR') AS p_mfgr,
               replace(p_brand, 'Brand', 'MFGR') AS p_category,
               replace(p_brand, 'Brand', 'MFGR') || (p_partkey % 40 + 1) AS p_brand1,
               split_part(p_name, ' ', 1) AS p_color, p_type, p_size::TINYINT AS p_size, p_container
        FROM part ORDER BY p_partkey""",
    "supplier": """
        SELECT s_suppkey::INTEGER AS s_suppkey, s_name, s_address, city(n_name, s_suppkey) AS s_city,
               n_name AS s_nation, r_name AS s_region, s_phone
        FROM supplier JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
        ORDER BY s_suppkey""",
}  # fmt: skip
"""The SQL of each table over the relations of TPC-H."""

KEYS = {
    "customer": "c_custkey", "dwdate": "d_datekey", "lineorder": "lo_orderkey lo_linenumber", "part": "p_partkey",
    "supplier": "s_suppkey",
}  # fmt: skip
"""The columns of the primary key of each table."""


def directory_of(tpch: Path) -> Path:
    """Return the directory of the tables that are derived from a directory of TPC-H; its name tells the SQL, too."""
    digest = hashlib.blake2b(repr((MACROS, TABLES)).encode(), digest_size=4).hexdigest()
    return tpch.with_name(f"ssb-{tpch.name.removeprefix('tpch-')}-{digest}")


def path_of(directory: Path, table: str) -> Path:
    return directory / f"{table}.parquet"


def make_tables(dataset: Dataset) -> Path:
    """Derive the missing tables of a dataset; return their directory."""
    directory = directory_of(dataset.directory)
    directory.mkdir(exist_ok=True)
    missing = [table for table in TABLES if not path_of(directory, table).exists()]
    if missing:
        with closing(duckdb.connect()) as connection:
            _show_relations(connection, dataset)
            connection.execute(MACROS)
            for table in missing:
                made = directory / f".{table}-{os.getpid()}.parquet"
                connection.execute(f"COPY ({TABLES[table]}) TO '{_quoted(made)}' (FORMAT parquet)")
                made.rename(path_of(directory, table))
    return directory


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _show_relations(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> None:
    """Show the relations of TPC-H as views, in the types of its specification."""
    for relation in RELATIONS.values():
        connection.register(f"stored_{relation.name}", dataset.table(relation.name))
        values = sql_values(relation, [column.name for column in relation.columns])
        connection.execute(f"CREATE VIEW {relation.name} AS SELECT {values} FROM stored_{relation.name}")  # noqa: S608
