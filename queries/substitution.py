"""Substitution: the values from which the specification of TPC-H draws the parameters of its queries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from random import Random

from deltamark.queries.query import DrawValue, months_later

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


def one_of(values: Sequence[str]) -> DrawValue:
    """Draw one of some values."""
    return lambda chance: chance.choice(values)


def several_of(values: Sequence[str], count: int) -> DrawValue:
    """Draw different values."""
    return lambda chance: tuple(chance.sample(values, count))


def phrase_of(*lists: Sequence[str]) -> DrawValue:
    """Draw a word of each list, and join them by spaces."""
    return lambda chance: " ".join(map(chance.choice, lists))


def number_between(low: int, high: int) -> DrawValue:
    """Draw a whole number."""
    return lambda chance: chance.randint(low, high)


def month_from(first: dt.date, months: int) -> DrawValue:
    """Draw the first day of one of some months."""
    return lambda chance: months_later(first, chance.randrange(months))


def year(chance: Random) -> dt.date:
    """Draw the first day of a year."""
    return dt.date(chance.randint(1993, 1997), 1, 1)


def brand(chance: Random) -> str:
    """Draw a brand."""
    return f"Brand#{chance.randint(1, 5)}{chance.randint(1, 5)}"


REGION = one_of(tuple(NATIONS))
NATION = one_of(sorted(nation for nations in NATIONS.values() for nation in nations))
TYPE = phrase_of(KINDS, FINISHES, METALS)
