"""The parameters of the queries: the specification's values for validation, its ranges for substitution, and both read
from text.

Q11's fraction is 0.0001 / SF: its query takes the inverse, which is exact.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from random import Random

from deltamark.errors import DeltamarkError, shortened, unknown
from deltamark.queries.query import Parameters, Value, months_later

NATIONS = {
    "AFRICA": ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    "AMERICA": ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    "ASIA": ("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"),
    "EUROPE": ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    "MIDDLE EAST": ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
}
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
KINDS = ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
FINISHES = ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
METALS = ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
PACKS = ("SM", "LG", "MED", "JUMBO", "WRAP")
CONTAINERS = ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
COLOR_WORDS = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse "
    "chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted "
    "gainsboro ghost gold goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime "
    "linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya "
    "peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke "
    "snow spring steel tan thistle tomato turquoise violet wheat white yellow"
)
COLORS = tuple(COLOR_WORDS.split())

VALIDATION: Mapping[str, Parameters] = {
    "q01": {"days": 90},
    "q02": {"size": 15, "metal": "BRASS", "region": "EUROPE"},
    "q03": {"segment": "BUILDING", "date": dt.date(1995, 3, 15)},
    "q04": {"date": dt.date(1993, 7, 1)},
    "q05": {"region": "ASIA", "date": dt.date(1994, 1, 1)},
    "q06": {"date": dt.date(1994, 1, 1), "discount": Decimal("0.06"), "quantity": 24},
    "q07": {"nation1": "FRANCE", "nation2": "GERMANY"},
    "q08": {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    "q09": {"color": "green"},
    "q10": {"date": dt.date(1993, 10, 1)},
    "q11": {"nation": "GERMANY", "inverse_fraction": Decimal(10000)},
    "q12": {"modes": ("MAIL", "SHIP"), "date": dt.date(1994, 1, 1)},
    "q13": {"word1": "special", "word2": "requests"},
    "q14": {"date": dt.date(1995, 9, 1)},
    "q15": {"date": dt.date(1996, 1, 1)},
    "q16": {"brand": "Brand#45", "type": "MEDIUM POLISHED", "sizes": (49, 14, 23, 45, 19, 3, 36, 9)},
    "q17": {"brand": "Brand#23", "container": "MED BOX"},
    "q18": {"quantity": 300},
    "q19": {
        "brand1": "Brand#12", "quantity1": 1, "brand2": "Brand#23", "quantity2": 10,
        "brand3": "Brand#34", "quantity3": 20,
    },
    "q20": {"color": "forest", "date": dt.date(1994, 1, 1), "nation": "CANADA"},
    "q21": {"nation": "SAUDI ARABIA"},
    "q22": {"codes": ("13", "31", "23", "29", "30", "18", "17")},
}  # fmt: skip
"""The values of scale factor 1, in the order in which the specification numbers them."""


def _month(first: dt.date, months: int) -> Callable[[Random], Value]:
    return lambda chance: months_later(first, chance.randrange(months))


def _one(values: Sequence[str]) -> Callable[[Random], Value]:
    return lambda chance: chance.choice(values)


def _between(low: int, high: int) -> Callable[[Random], Value]:
    return lambda chance: chance.randint(low, high)


def _year(chance: Random) -> Value:
    return dt.date(chance.randint(1993, 1997), 1, 1)


def _brand(chance: Random) -> Value:
    return f"Brand#{chance.randint(1, 5)}{chance.randint(1, 5)}"


def _joined(*lists: Sequence[str]) -> Callable[[Random], Value]:
    return lambda chance: " ".join(map(chance.choice, lists))


_REGION = _one(tuple(NATIONS))
_NATION = _one(sorted(nation for nations in NATIONS.values() for nation in nations))

SUBSTITUTION: Mapping[str, Mapping[str, Callable[[Random], Value]]] = {
    "q01": {"days": _between(60, 120)},
    "q02": {"size": _between(1, 50), "metal": _one(METALS), "region": _REGION},
    "q03": {"segment": _one(SEGMENTS), "date": lambda chance: dt.date(1995, 3, chance.randint(1, 31))},
    "q04": {"date": _month(dt.date(1993, 1, 1), 58)},
    "q05": {"region": _REGION, "date": _year},
    "q06": {
        "date": _year,
        "discount": lambda chance: Decimal(chance.randint(2, 9)) / 100,
        "quantity": _between(24, 25),
    },
    "q09": {"color": _one(COLORS)},
    "q10": {"date": _month(dt.date(1993, 2, 1), 24)},
    "q11": {"nation": _NATION},
    "q12": {"modes": lambda chance: tuple(chance.sample(MODES, 2)), "date": _year},
    "q13": {
        "word1": _one(("special", "pending", "unusual", "express")),
        "word2": _one(("packages", "requests", "accounts", "deposits")),
    },
    "q14": {"date": _month(dt.date(1993, 1, 1), 60)},
    "q15": {"date": _month(dt.date(1993, 1, 1), 58)},
    "q16": {
        "brand": _brand,
        "type": _joined(KINDS, FINISHES),
        "sizes": lambda chance: tuple(chance.sample(range(1, 51), 8)),
    },
    "q17": {"brand": _brand, "container": _joined(PACKS, CONTAINERS)},
    "q18": {"quantity": _between(312, 315)},
    "q19": {"brand1": _brand, "quantity1": _between(1, 10), "brand2": _brand, "quantity2": _between(10, 20)}
    | {"brand3": _brand, "quantity3": _between(20, 30)},
    "q20": {"color": _one(COLORS), "date": _year, "nation": _NATION},
    "q21": {"nation": _NATION},
    "q22": {"codes": lambda chance: tuple(map(str, chance.sample(range(10, 35), 7)))},
}
"""How each parameter is drawn by itself; see `drawn` for those that depend on each other."""

DRAWABLE = {*SUBSTITUTION, "q07", "q08"}
"""The queries whose parameters the specification draws. A seed for any other query is an error, not ignored."""


def drawn(query: str, chance: Random) -> Parameters:
    """Draw a query's parameters from the specification's ranges."""
    if query not in DRAWABLE:
        remedy = "leave the seed out, or give parameters by name: --param name=value"
        raise DeltamarkError("no ranges to draw parameters from", query, remedy)
    if query == "q07":
        nation1, nation2 = chance.sample([nation for nations in NATIONS.values() for nation in nations], 2)
        return {"nation1": nation1, "nation2": nation2}
    if query == "q08":
        region = chance.choice(tuple(NATIONS))
        nation = chance.choice(NATIONS[region])
        return {"nation": nation, "region": region, "type": _joined(KINDS, FINISHES, METALS)(chance)}
    return {name: draw(chance) for name, draw in SUBSTITUTION[query].items()}


def parameters(
    query: str, scale_factor: Decimal, seed: int | None = None, given: Mapping[str, str] | None = None
) -> Parameters:
    """Return a query's parameters: for validation, or drawn by a seed, and in both cases with those given as text."""
    values = dict(VALIDATION.get(query, {}))
    if query == "q11":
        values["inverse_fraction"] = 10000 * scale_factor
    if seed is not None:
        values |= drawn(query, Random(f"{query} {seed}"))  # noqa: S311 (no secret)
    for name, text in (given or {}).items():
        if name not in values:
            raise unknown(f"parameter of {query}", name, values)
        values[name] = _read(name, text, values[name])
    return values


FIRST_DAY, LAST_DAY = dt.date(1900, 1, 1), dt.date(2100, 12, 31)
"""Dates from which queries count months and years on."""

MOST_WHOLE, MOST_DECIMAL, PLACES = 100_000, 10**12, 12
"""Whole numbers are days, sizes and quantities."""


def _read(name: str, text: str, like: Value) -> Value:
    """Read a value of the kind of another."""
    try:
        match like:
            case dt.date():
                value: Value = dt.date.fromisoformat(text)
            case tuple():
                words = [each.strip() for each in text.split(",")]
                value = tuple(map(int, words)) if isinstance(like[0], int) else tuple(words)
            case _:
                value = type(like)(text)
    except (ValueError, InvalidOperation) as error:
        raise DeltamarkError(f"not a value of {name}", shortened(text), f"write one such as {shown(like)}") from error
    for each in value if isinstance(value, tuple) else (value,):
        _check(name, text, each)
    return value


def _check(name: str, text: str, value: Value) -> None:
    """Refuse a number or a date that no query can compute with."""
    cause, said = f"a value of {name} out of bounds", shortened(text)
    match value:
        case dt.date() if not FIRST_DAY <= value <= LAST_DAY:
            raise DeltamarkError(cause, said, f"write one from {FIRST_DAY} to {LAST_DAY}")
        case int() if abs(value) > MOST_WHOLE:
            raise DeltamarkError(cause, said, f"write one from -{MOST_WHOLE} to {MOST_WHOLE}")
        case Decimal() if not (value.is_finite() and abs(value) <= MOST_DECIMAL and value == round(value, PLACES)):
            remedy = f"write one from -{MOST_DECIMAL} to {MOST_DECIMAL} with at most {PLACES} decimal places"
            raise DeltamarkError(cause, said, remedy)


def shown(value: Value) -> str:
    """Write a value as it is read."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
