"""Costs of jobs: amounts by name, which the protocol has in millionths of a unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TypeAlias

from .errors import Invalid

# An amount of a cost, in units.
Amount: TypeAlias = float | Decimal

_AMOUNT_MOST = 10**12
_COSTS_MOST = 8
_NAME = re.compile(r"(?!.*[:=,])[!-~]{1,128}")
_MILLIONTH = Decimal("0.000001")
# Holds the greatest amount with its six fraction digits, whatever the precision of the caller.
_WIDE = Context(prec=28, rounding=ROUND_HALF_UP)


def to_millionths(field: str, units: Amount, name: str = "", *, rounds: bool = False) -> int:
    """Return an amount in millionths; ``rounds`` accepts more than six fraction digits."""

    def invalid(hint: str) -> Invalid:
        got = f"{name}={units}" if name else units
        return Invalid(f"{field}: got {got}; use {hint}", subject=field)

    try:
        exact = Decimal(str(units))  # of a float, the shortest digits
        fits = 0 <= exact <= _AMOUNT_MOST
    except ArithmeticError:  # NaN, or not a number
        fits = False
    if not fits:
        raise invalid(f"an amount from 0 to {_AMOUNT_MOST}")
    rounded = exact.quantize(_MILLIONTH, context=_WIDE)
    if rounded != exact and not rounds:
        raise invalid("at most six digits after the point")
    return int(rounded.scaleb(6, _WIDE))


def from_millionths(millionths: int) -> Decimal:
    """Return an amount in units."""
    return _WIDE.divide(Decimal(millionths), Decimal(10**6))


def costs_to_wire(costs: Mapping[str, Amount]) -> dict[str, int]:
    """Return costs in millionths."""
    return {name: to_millionths("costs", units, name) for name, units in costs.items()}


def costs_from_wire(costs: Mapping[str, int]) -> dict[str, Decimal]:
    """Return costs in units."""
    return {name: from_millionths(amount) for name, amount in costs.items()}


def spend(before: Mapping[str, int], name: str, units: Amount) -> dict[str, int]:
    """Return an attempt's totals with a new total of one cost; raise `Invalid` for an invalid one.

    The cluster would refuse the verb that carries it, such as the completion.
    """
    total = to_millionths("costs", units, name, rounds=True)
    if total < before.get(name, 0):
        raise Invalid(
            f"costs: got {name}={from_millionths(total)} after {from_millionths(before[name])}; "
            "report the total of the attempt, which only grows",
            subject="costs",
        )
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"costs: got the name {name[:80]!r}; use 1 to 128 bytes of printable ASCII without "
            "blanks, colons, commas and equals signs",
            subject="costs",
        )
    totals = {**before, name: total}
    if len(totals) > _COSTS_MOST:
        raise Invalid(f"too many costs: got {len(totals)}, maximum {_COSTS_MOST}", subject="costs")
    return totals
