"""Maintain a view with the installed package: smoke.py DISTRIBUTION, whose file name has the version."""

import sys
from pathlib import Path

import deltamark

name = Path(sys.argv[1]).name
assert name.startswith(f"deltamark-{deltamark.__version__}"), (name, deltamark.__version__)
assert "site-packages" in deltamark.__file__, deltamark.__file__
with deltamark.connect() as con:
    con.execute("CREATE TABLE sales (shop INTEGER, price INTEGER)")
    con.execute("CREATE VIEW revenue AS SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop")
    con.insert("sales", [{"shop": 7, "price": 9}, {"shop": 7, "price": 1}, {"shop": 8, "price": 4}])
    con.execute("DELETE FROM sales WHERE price = 1")
    assert con.execute("SELECT * FROM revenue ORDER BY shop").fetchall() == [(7, 9), (8, 4)]
print(f"{name}: a view is maintained")
