"""TPC-DS: its 24 relations, and the generator, a Spark job in which tasks run tpcgen-cli, the successor of tpchgen-cli.

Sales lie in the order of their dates, and returns in that of their sales, so the steps of `window` and `refresh` are
ranges of dates. (The generator draws the dates of orders in stores and on the web.) An order has the latest date of its
sales; one without a date comes first.

Any column outside of keys may be NULL, as in the specification. The data says which are, and which texts are few words.
Seven relations have a rank of their own, and so times of their own in a round: sales, returns and inventory. A return
has a lower rank than its sale, so it leaves before it; in the round of its arrival it comes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from deltamark.datagen.files import MOST_CODES, literal, read
from deltamark.datagen.schema import Column, Relation, Relations, relation
from deltamark.datagen.source import Parts, Source
from deltamark.datagen.tpch import generate, part_count, part_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFERENCES: Mapping[str, str] = {
    "addr_sk": "customer_address", "call_center_sk": "call_center", "catalog_page_sk": "catalog_page",
    "cdemo_sk": "customer_demographics", "customer_sk": "customer", "date_sk": "date_dim",
    "hdemo_sk": "household_demographics", "income_band_sk": "income_band", "item_sk": "item", "promo_sk": "promotion",
    "reason_sk": "reason", "ship_mode_sk": "ship_mode", "store_sk": "store", "time_sk": "time_dim",
    "warehouse_sk": "warehouse", "web_page_sk": "web_page", "web_site_sk": "web_site",
}  # fmt: skip
"""The relations to whose keys columns refer, by the last words of their names."""


def table(name: str, prefix: str, key: str, columns: str, **more: Any) -> Relation:
    """Return a relation. A column without a type is an int, and `price` a decimal(7,2)."""
    words = (word if ":" in word else f"{word}:int" for word in columns.replace(":price", ":decimal(7,2)").split())
    found = relation(name, prefix, key, " ".join(words), **more)
    references = [
        (column.name, to)
        for column in found.columns
        for last, to in REFERENCES.items()
        if f"_{column.name}".endswith(f"_{last}") and to != name
    ]
    if found.member_of:
        references.append((key, found.member_of))
    stored = tuple(replace(column, nullable=column.name not in found.key) for column in found.columns)
    return replace(found, columns=stored, references=tuple(references))


RELATIONS = Relations((
    table(
        "catalog_returns", "cr_", "item_sk order_number",
        "returned_date_sk returned_time_sk item_sk refunded_customer_sk refunded_cdemo_sk refunded_hdemo_sk "
        "refunded_addr_sk returning_customer_sk returning_cdemo_sk returning_hdemo_sk returning_addr_sk "
        "call_center_sk catalog_page_sk ship_mode_sk warehouse_sk reason_sk order_number:int return_quantity:int "
        "return_amount:price return_tax:price return_amt_inc_tax:price fee:price return_ship_cost:price "
        "refunded_cash:price reversed_charge:price store_credit:price net_loss:price",
        member_of="catalog_sales", changing=("return_quantity", "net_loss"),
    ),
    table(
        "catalog_sales", "cs_", "item_sk order_number",
        "sold_date_sk sold_time_sk ship_date_sk bill_customer_sk bill_cdemo_sk bill_hdemo_sk bill_addr_sk "
        "ship_customer_sk ship_cdemo_sk ship_hdemo_sk ship_addr_sk call_center_sk catalog_page_sk ship_mode_sk "
        "warehouse_sk item_sk promo_sk order_number:int quantity:int wholesale_cost:price list_price:price "
        "sales_price:price ext_discount_amt:price ext_sales_price:price ext_wholesale_cost:price "
        "ext_list_price:price ext_tax:price coupon_amt:price ext_ship_cost:price net_paid:price "
        "net_paid_inc_tax:price net_paid_inc_ship:price net_paid_inc_ship_tax:price net_profit:price",
        roles=("events",), changing=("quantity", "ext_sales_price", "net_profit"),
    ),
    table(
        "inventory", "inv_", "date_sk item_sk warehouse_sk",
        "date_sk item_sk warehouse_sk quantity_on_hand:int",
        roles=("events",), changing=("quantity_on_hand",),
    ),
    table(
        "store_returns", "sr_", "item_sk ticket_number",
        "returned_date_sk return_time_sk item_sk customer_sk cdemo_sk hdemo_sk addr_sk store_sk reason_sk "
        "ticket_number:int return_quantity:int return_amt:price return_tax:price return_amt_inc_tax:price fee:price "
        "return_ship_cost:price refunded_cash:price reversed_charge:price store_credit:price net_loss:price",
        member_of="store_sales", changing=("return_quantity", "net_loss"),
    ),
    table(
        "store_sales", "ss_", "item_sk ticket_number",
        "sold_date_sk sold_time_sk item_sk customer_sk cdemo_sk hdemo_sk addr_sk store_sk promo_sk ticket_number:int "
        "quantity:int wholesale_cost:price list_price:price sales_price:price ext_discount_amt:price "
        "ext_sales_price:price ext_wholesale_cost:price ext_list_price:price ext_tax:price coupon_amt:price "
        "net_paid:price net_paid_inc_tax:price net_profit:price",
        roles=("events",), changing=("quantity", "ext_sales_price", "net_profit"),
    ),
    table(
        "web_returns", "wr_", "item_sk order_number",
        "returned_date_sk returned_time_sk item_sk refunded_customer_sk refunded_cdemo_sk refunded_hdemo_sk "
        "refunded_addr_sk returning_customer_sk returning_cdemo_sk returning_hdemo_sk returning_addr_sk web_page_sk "
        "reason_sk order_number:int return_quantity:int return_amt:price return_tax:price return_amt_inc_tax:price "
        "fee:price return_ship_cost:price refunded_cash:price reversed_charge:price account_credit:price "
        "net_loss:price",
        member_of="web_sales", changing=("return_quantity", "net_loss"),
    ),
    table(
        "web_sales", "ws_", "item_sk order_number",
        "sold_date_sk sold_time_sk ship_date_sk item_sk bill_customer_sk bill_cdemo_sk bill_hdemo_sk bill_addr_sk "
        "ship_customer_sk ship_cdemo_sk ship_hdemo_sk ship_addr_sk web_page_sk web_site_sk ship_mode_sk warehouse_sk "
        "promo_sk order_number:int quantity:int wholesale_cost:price list_price:price sales_price:price "
        "ext_discount_amt:price ext_sales_price:price ext_wholesale_cost:price ext_list_price:price ext_tax:price "
        "coupon_amt:price ext_ship_cost:price net_paid:price net_paid_inc_tax:price net_paid_inc_ship:price "
        "net_paid_inc_ship_tax:price net_profit:price",
        roles=("events",), changing=("quantity", "ext_sales_price", "net_profit"),
    ),
    table(
        "call_center", "cc_", "call_center_sk",
        "call_center_sk call_center_id:text rec_start_date:date rec_end_date:date closed_date_sk open_date_sk "
        "name:text class:text employees:int sq_ft:int hours:text manager:text mkt_id:int mkt_class:text "
        "mkt_desc:text market_manager:text division:int division_name:text company:int company_name:text "
        "street_number:text street_name:text street_type:text suite_number:text city:text county:text state:text "
        "zip:text country:text gmt_offset:decimal(5,2) tax_percentage:decimal(5,2)",
        changing=("employees",),
    ),
    table(
        "catalog_page", "cp_", "catalog_page_sk",
        "catalog_page_sk catalog_page_id:text start_date_sk end_date_sk department:text catalog_number:int "
        "catalog_page_number:int description:text type:text",
        changing=("catalog_number",),
    ),
    table(
        "customer", "c_", "customer_sk",
        "customer_sk customer_id:text current_cdemo_sk current_hdemo_sk current_addr_sk first_shipto_date_sk "
        "first_sales_date_sk salutation:text first_name:text last_name:text preferred_cust_flag:text birth_day:int "
        "birth_month:int birth_year:int birth_country:text login:text email_address:text last_review_date_sk",
        roles=("hot",), changing=("current_addr_sk", "current_cdemo_sk", "birth_month"), in_turn=True,
    ),
    table(
        "customer_address", "ca_", "address_sk",
        "address_sk address_id:text street_number:text street_name:text street_type:text suite_number:text city:text "
        "county:text state:text zip:text country:text gmt_offset:decimal(5,2) location_type:text",
        roles=("leaving",),
    ),
    table(
        "customer_demographics", "cd_", "demo_sk",
        "demo_sk gender:text marital_status:text education_status:text purchase_estimate:int credit_rating:text "
        "dep_count:int dep_employed_count:int dep_college_count:int",
        roles=("fixed",),
    ),
    table(
        "date_dim", "d_", "date_sk",
        "date_sk date_id:text date:date month_seq:int week_seq:int quarter_seq:int year:int dow:int moy:int dom:int "
        "qoy:int fy_year:int fy_quarter_seq:int fy_week_seq:int day_name:text quarter_name:text holiday:text "
        "weekend:text following_holiday:text first_dom:int last_dom:int same_day_ly:int same_day_lq:int "
        "current_day:text current_week:text current_month:text current_quarter:text current_year:text",
        roles=("fixed",),
    ),
    table(
        "household_demographics", "hd_", "demo_sk",
        "demo_sk income_band_sk buy_potential:text dep_count:int vehicle_count:int",
        roles=("fixed",),
    ),
    table(
        "income_band", "ib_", "income_band_sk",
        "income_band_sk lower_bound:int upper_bound:int",
        roles=("fixed",),
    ),
    table(
        "item", "i_", "item_sk",
        "item_sk item_id:text rec_start_date:date rec_end_date:date item_desc:text current_price:price "
        "wholesale_cost:price brand_id:int brand:text class_id:int class:text category_id:int category:text "
        "manufact_id:int manufact:text size:text formulation:text color:text units:text container:text "
        "manager_id:int product_name:text",
        roles=("hot",), changing=("current_price", "brand_id", "manufact_id", "manager_id"), in_turn=True,
    ),
    table(
        "promotion", "p_", "promo_sk",
        "promo_sk promo_id:text start_date_sk end_date_sk item_sk cost:decimal(15,2) response_target:int "
        "promo_name:text channel_dmail:text channel_email:text channel_catalog:text channel_tv:text "
        "channel_radio:text channel_press:text channel_event:text channel_demo:text channel_details:text "
        "purpose:text discount_active:text",
        roles=("leaving",),
    ),
    table(
        "reason", "r_", "reason_sk",
        "reason_sk reason_id:text reason_desc:text",
        roles=("fixed",),
    ),
    table(
        "ship_mode", "sm_", "ship_mode_sk",
        "ship_mode_sk ship_mode_id:text type:text code:text carrier:text contract:text",
        roles=("fixed",),
    ),
    table(
        "store", "s_", "store_sk",
        "store_sk store_id:text rec_start_date:date rec_end_date:date closed_date_sk store_name:text "
        "number_employees:int floor_space:int hours:text manager:text market_id:int geography_class:text "
        "market_desc:text market_manager:text division_id:int division_name:text company_id:int company_name:text "
        "street_number:text street_name:text street_type:text suite_number:text city:text county:text state:text "
        "zip:text country:text gmt_offset:decimal(5,2) tax_precentage:decimal(5,2)",
        changing=("number_employees",),
    ),
    table(
        "time_dim", "t_", "time_sk",
        "time_sk time_id:text time:int hour:int minute:int second:int am_pm:text shift:text sub_shift:text "
        "meal_time:text",
        roles=("fixed",),
    ),
    table(
        "warehouse", "w_", "warehouse_sk",
        "warehouse_sk warehouse_id:text warehouse_name:text warehouse_sq_ft:int street_number:text street_name:text "
        "street_type:text suite_number:text city:text county:text state:text zip:text country:text "
        "gmt_offset:decimal(5,2)",
        changing=("warehouse_sq_ft",),
    ),
    table(
        "web_page", "wp_", "web_page_sk",
        "web_page_sk web_page_id:text rec_start_date:date rec_end_date:date creation_date_sk access_date_sk "
        "autogen_flag:text customer_sk url:text type:text char_count:int link_count:int image_count:int "
        "max_ad_count:int",
        changing=("char_count",),
    ),
    table(
        "web_site", "web_", "site_sk",
        "site_sk site_id:text rec_start_date:date rec_end_date:date name:text open_date_sk close_date_sk class:text "
        "manager:text mkt_id:int mkt_class:text mkt_desc:text market_manager:text company_id:int company_name:text "
        "street_number:text street_name:text street_type:text suite_number:text city:text county:text state:text "
        "zip:text country:text gmt_offset:decimal(5,2) tax_percentage:decimal(5,2)",
    ),
))  # fmt: skip

VERSION = "4.0.0"
"""The version of tpcgen-cli."""

ORDERED = 1
"""The version of the order of the rows."""

NUMBERS = {"store_sales": "ticket_number", "catalog_sales": "order_number", "web_sales": "order_number"}
"""The columns with the numbers of orders, by the relation of their sales."""


class TpcdsGenerator(Source):
    """The rows of tpcgen-cli. program: returns its path, or raises an error if it is not installed."""

    name = "tpcds"
    relations = RELATIONS

    def __init__(self, program: Callable[[], Path]) -> None:
        self._program = program

    def version(self) -> str:
        return f"tpcgen-cli {VERSION} {ORDERED}"

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        command, session = (str(self._program()), "tpcds", "parquet", "-s", str(sf)), spark()
        parts = part_count(sf, session.sparkContext.defaultParallelism)
        parquet = making / f"parquet-{parts}"
        parquet.mkdir(parents=True, exist_ok=True)
        generate(session, command, parquet, parts, report)
        files = {name: part_files(parquet, name) for name in RELATIONS}
        with closing(duckdb.connect(config={"temp_directory": str(making / "sorting")})) as connection:
            for name, paths in files.items():
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {read(paths)}")
            found = Relations(_as_found(connection, each) for each in RELATIONS.values())
            for sales, number in NUMBERS.items():
                for name in (sales, *RELATIONS.members(sales)):
                    files[name] = [making / f"{name}.parquet"]
                    path = literal(str(files[name][0]))
                    connection.execute(f"COPY ({_in_order(name, sales, number)}) TO {path} (FORMAT parquet)")
        return Parts(found, files)


def _in_order(name: str, sales: str, number: str) -> str:
    """Return the SQL of the rows of sales, or of their returns, in the order of the dates of their orders."""
    own, prefix = RELATIONS[name].prefix, RELATIONS[sales].prefix
    return f"""
        SELECT rows.* FROM {name} AS rows
        JOIN (SELECT {prefix}{number} AS number, max({prefix}sold_date_sk) AS day FROM {sales} GROUP BY ALL) AS orders
          ON rows.{own}{number} = orders.number
        ORDER BY orders.day NULLS FIRST, orders.number, rows.{own}item_sk"""


def _as_found(connection: duckdb.DuckDBPyConnection, relation: Relation) -> Relation:
    """Declare columns without NULL as such, and make codes of their texts if these are few and no names of rows."""

    def counted(expression: str, columns: list[Column]) -> list[int]:
        listed = ", ".join(expression.format(relation.prefix + column.name) for column in columns)
        return list(connection.execute(f"SELECT {listed} FROM {relation.name}").fetchone() or ()) if columns else []

    columns = list(relation.columns)
    nulls = counted("count(*) - count({})", columns)
    found = {column.name: replace(column, nullable=count > 0) for column, count in zip(columns, nulls, strict=True)}
    known = (each for each in found.values() if not each.nullable)
    texts = [each for each in known if each.kind == "text" and not each.name.endswith("_id")]
    for column, count in zip(texts, counted("count(DISTINCT {})", texts), strict=True):
        if 1 <= count <= MOST_CODES:
            found[column.name] = replace(column, kind="code")
    return replace(relation, columns=tuple(found.values()))
