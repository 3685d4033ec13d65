"""The Star Schema Benchmark: five relations, derived from the rows of TPC-H.

lineorder is lineitem joined with orders and with the cost of partsupp; dates are numbers such as 19940131. The
derivation differs from the benchmark's own generator where TPC-H lacks something:

- TPC-H has five times as many customers and suppliers, and at scale factors above 1 more parts.
- A city is the nation and a digit, which is the last one of the key. A brand is the category and a number from 1 to 40,
  which is the key of the part modulo 40, plus 1. The generator draws both.
- Category and manufacturer are those of TPC-H, renamed. The color is the first word of the part's name.
- The cost is that of partsupp; the generator computes it as 60 % of the price. The revenue is not rounded to cents.
- The holidays are New Year and Christmas. Flags are 0 or 1. dwdate has the 2,557 days of seven years; the paper counts
  2,556.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from deltamark.datagen.files import literal, read
from deltamark.datagen.schema import Relations, relation
from deltamark.datagen.source import Parts, Source
from deltamark.datagen.tpch import TPCH, generator_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = Relations((
    relation(
        "customer", "c_", "custkey",
        "custkey:int name:text address:text city:code nation:code region:code phone:text mktsegment:code",
        roles=("hot",), changing=("city",),
    ),
    relation(
        "dwdate", "d_", "datekey",
        "datekey:int date:text dayofweek:code month:code year:int yearmonthnum:int yearmonth:code daynuminweek:int "
        "daynuminmonth:int daynuminyear:int monthnuminyear:int weeknuminyear:int sellingseason:code "
        "lastdayinweekfl:int lastdayinmonthfl:int holidayfl:int weekdayfl:int",
        roles=("fixed",),
    ),
    relation(
        "lineorder", "lo_", "orderkey linenumber",
        "orderkey:int linenumber:int custkey:int partkey:int suppkey:int orderdate:int orderpriority:code "
        "shippriority:int quantity:int extendedprice:decimal(12,2) ordtotalprice:decimal(12,2) discount:int "
        "revenue:decimal(14,4) supplycost:decimal(12,2) tax:int commitdate:int shipmode:code",
        references=(
            ("custkey", "customer"), ("partkey", "part"), ("suppkey", "supplier"), ("orderdate", "dwdate"),
            ("commitdate", "dwdate"),
        ),
        roles=("events",), changing=("quantity", "discount"),
    ),
    relation(
        "part", "p_", "partkey",
        "partkey:int name:text mfgr:code category:code brand1:code color:code type:code size:int container:code",
        roles=("hot",), changing=("brand1",),
    ),
    relation(
        "supplier", "s_", "suppkey",
        "suppkey:int name:text address:text city:code nation:code region:code phone:text",
        roles=("leaving",),
    ),
))  # fmt: skip

MACROS = """
CREATE MACRO datekey(day) AS (year(day) * 10000 + month(day) * 100 + day(day))::INTEGER;
CREATE VIEW cost AS  -- below scale factor 0.01, pairs of parts and suppliers are not unique
    SELECT ps_partkey, ps_suppkey, min(ps_supplycost) AS ps_supplycost FROM partsupp GROUP BY ALL;
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
               (dayofweek(day) = 6)::TINYINT AS d_lastdayinweekfl, (last_day(day) = day)::TINYINT AS d_lastdayinmonthfl,
               (strftime(day, '%m%d') IN ('0101', '1225'))::TINYINT AS d_holidayfl,
               (dayofweek(day) BETWEEN 1 AND 5)::TINYINT AS d_weekdayfl
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
             JOIN cost ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
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


class StarGenerator(Source):
    """The rows that DuckDB derives from those of tpchgen-cli."""

    name = "ssb"
    relations = RELATIONS

    def version(self) -> str:
        digest = hashlib.blake2b(repr((MACROS, TABLES)).encode(), digest_size=4).hexdigest()
        return f"{generator_version()} {digest}"

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        base = TPCH.parts(spark, sf, making, report)
        files = {name: making / f"{name}.parquet" for name in TABLES}
        with closing(duckdb.connect()) as connection:
            for name, paths in base.files.items():
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {read(paths)}")
            connection.execute(MACROS)
            for done, (name, sql) in enumerate(TABLES.items()):
                connection.execute(f"COPY ({sql}) TO {literal(str(files[name]))} (FORMAT parquet)")
                report(done + 1, len(TABLES))
        return Parts(RELATIONS, {name: [path] for name, path in files.items()})


SSB = StarGenerator()
