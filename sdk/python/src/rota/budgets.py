"""Budgets: what jobs may spend of a cost in a period."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from . import _v1
from ._calls import Caller
from ._costs import Amount, from_millionths, to_millionths
from ._read import Page, ReadOptions, pages, read_of
from ._values import from_unix_ms, new_id
from .errors import Invalid

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Budget:
    """A limit on what jobs spend of a cost in a period.

    It applies to the jobs of its tenant, queue and key, and to all where one is not set.

    Attributes:
        name: of the budget.
        unit: the cost that it limits, such as ``usd``.
        limit: how much of the cost a period may spend, in units.
        tenant: of the jobs that it applies to; ``queue`` likewise.
        key: of the jobs that it applies to: ``name:value``, or ``name`` for any value.
        each: what has an account of its own, each with the whole limit: ``tenant``, ``key``,
            ``workflow`` or ``job``; ``none`` for one account.
        default_cost: how much a job without an estimate of the cost counts.
        every: the calendar period after which it begins again: ``hour``, ``day``, ``week`` or
            ``month``; ``none`` for never.
        tz: the time zone of the periods; empty for UTC.
        warn: the ratio of the limit at which an event is emitted, up to 1; 0 for never.
        then: ``hold`` lets jobs wait at the limit, ``refuse`` also refuses submissions, ``ask``
            also opens a question that a grant answers, ``warn`` only emits an event.
        stop: also interrupts an attempt whose report passes the limit.
        etag: the version of a budget that was read; a budget with one replaces only that version.
    """

    name: str
    unit: str
    limit: Amount
    tenant: str = ""
    queue: str = ""
    key: str = ""
    each: str = "none"
    default_cost: Amount = 0
    every: str = "none"
    tz: str = ""
    warn: float = 0
    then: str = "hold"
    stop: bool = False
    etag: str = ""

    @staticmethod
    def _of(w: _v1.Budget) -> Budget:
        return Budget(
            w.name, w.unit, from_millionths(w.limit), w.tenant, w.queue, w.key, w.each,
            from_millionths(w.default_cost), w.every, w.tz, w.warn_permille / 1000, w.then, w.stop,
            w.etag,
        )  # fmt: skip

    def _wire(self) -> _v1.Budget:
        if not 0 <= self.warn <= 1:
            raise Invalid(f"warn must be between 0 and 1, got {self.warn}", subject="warn")
        return _v1.Budget(
            name=self.name, tenant=self.tenant, queue=self.queue, key=self.key, each=self.each,
            unit=self.unit, limit=to_millionths("limit", self.limit),
            default_cost=to_millionths("default_cost", self.default_cost), every=self.every,
            tz=self.tz, warn_permille=max(1, round(self.warn * 1000)) if self.warn else 0,
            then=self.then, stop=self.stop, etag=self.etag,
        )  # fmt: skip


@dataclass(frozen=True)
class BudgetState:
    """A budget and the sums of its accounts.

    Attributes:
        budget: its settings.
        since: when the present period began.
        until: when it ends; None if it has no end, or none is calculated yet.
        accounts: the number of accounts that hold anything.
        spent: what ended attempts have used in this period.
        reserved: what open attempts may use: the greater of their estimates and their reports.
        granted: what was added to the limits for this period.
        held: the number of accounts that hold jobs back.
        asking: the number of open questions.
    """

    budget: Budget
    since: datetime | None
    until: datetime | None
    accounts: int
    spent: Decimal
    reserved: Decimal
    granted: Decimal
    held: int
    asking: int = 0

    @classmethod
    def _of(cls, w: _v1.BudgetState) -> BudgetState:
        return cls(
            Budget._of(w.budget), from_unix_ms(w.since_ms), from_unix_ms(w.until_ms), w.accounts,
            from_millionths(w.spent), from_millionths(w.reserved), from_millionths(w.granted),
            w.held, w.asking,
        )  # fmt: skip


@dataclass(frozen=True)
class BudgetChange:
    """A grant to an account, or a reset of it.

    Attributes:
        id: of the call, so that a repetition changes nothing.
        amount: what was added to the limit; 0 for a reset.
        reason: as the caller gave it.
        by: who made the call.
        at: when.
    """

    id: str
    amount: Decimal
    reason: str
    by: str
    at: datetime | None

    @classmethod
    def _of(cls, w: _v1.BudgetChange) -> BudgetChange:
        return cls(w.id, from_millionths(w.amount), w.reason, w.by, from_unix_ms(w.at_ms))


@dataclass(frozen=True)
class BudgetAccount:
    """One account of a budget in the present period.

    Attributes:
        budget: the name of the budget.
        of: the tenant, key, workflow or job that it belongs to; empty if the budget has one
            account.
        limit: including what was granted.
        spent: what ended attempts have used.
        reserved: what open attempts may use: the greater of their estimates and their reports.
        left: the rest of the limit, never negative.
        granted: what was added to the limit for this period.
        waiting: the number of QUEUED jobs that it applies to; ``held`` of them do not fit.
        warned: the event of the warning was emitted in this period.
        full: the event that nothing is left, or that a job does not fit, was emitted.
        asks: a question is open.
        empty: when nothing is left if it is spent as fast as since the period began; None if not in
            this period.
        changes: the newest grants and resets, oldest first.
    """

    budget: str
    of: str
    limit: Decimal
    spent: Decimal
    reserved: Decimal
    left: Decimal
    granted: Decimal
    waiting: int
    held: int
    warned: bool
    full: bool
    asks: bool
    empty: datetime | None
    changes: tuple[BudgetChange, ...]

    @classmethod
    def _of(cls, w: _v1.BudgetAccount) -> BudgetAccount:
        return cls(
            w.budget, w.of, from_millionths(w.limit), from_millionths(w.spent),
            from_millionths(w.reserved), from_millionths(w.left), from_millionths(w.granted),
            w.waiting, w.held, w.warned, w.full, w.asks, from_unix_ms(w.empty_ms),
            tuple(BudgetChange._of(c) for c in w.changes),
        )  # fmt: skip


class Budgets:
    """The calls for budgets: `Client.budgets`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def set(self, budget: Budget, *, if_match: str = "") -> BudgetState:
        """Set a budget, or replace the one of its name.

        What was spent stays, unless the budget is then about other jobs or another unit. Open
        attempts count at once.
        """
        request = _v1.SetBudgetRequest(budget=budget._wire(), if_match=if_match)
        got = await self._caller.ask("set budget", _v1.BUDGETS_SET, request)
        return BudgetState._of(got.budget)

    async def delete(self, name: str, *, if_match: str = "") -> None:
        """Delete a budget and what was spent of it; a missing budget is not an error."""
        request = _v1.DeleteBudgetRequest(name=name, if_match=if_match)
        await self._caller.ask("delete budget", _v1.BUDGETS_DELETE, request)

    def list(
        self, *, asking: bool = False, **read: Unpack[ReadOptions]
    ) -> AsyncIterator[BudgetState]:
        """List the budgets by name, with the sums of their accounts.

        ``asking`` selects those with an open question.
        """

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.BudgetState]:
            request = _v1.ListBudgetsRequest(
                read=how, limit=most, cursor=cursor, asking=asking
            )
            got = await self._caller.ask("list budgets", _v1.BUDGETS_LIST, request)
            return got.budgets, got.next_cursor, got.at

        return pages(read, None, ask, BudgetState._of)

    async def get(self, name: str, **read: Unpack[ReadOptions]) -> BudgetState:
        """Read one budget, with the sums of its accounts."""
        request = _v1.GetBudgetRequest(name=name, read=read_of(read))
        got = await self._caller.ask("show budget", _v1.BUDGETS_GET, request)
        return BudgetState._of(got.budget)

    def accounts(
        self,
        name: str,
        *,
        of: str = "",
        held: bool = False,
        asking: bool = False,
        limit: int | None = None,
        **read: Unpack[ReadOptions],
    ) -> AsyncIterator[BudgetAccount]:
        """List the accounts of a budget by what they belong to.

        ``of`` selects the account of one tenant, key, workflow or job; ``held`` selects those that
        hold jobs back, ``asking`` the open questions.
        """

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.BudgetAccount]:
            request = _v1.ListBudgetAccountsRequest(
                read=how, limit=most, cursor=cursor, name=name, of=of, held=held, asking=asking
            )
            got = await self._caller.ask("list budget accounts", _v1.BUDGETS_ACCOUNTS, request)
            return got.accounts, got.next_cursor, got.at

        return pages(read, limit, ask, BudgetAccount._of)

    async def grant(
        self,
        name: str,
        amount: Amount,
        *,
        of: str = "",
        reason: str = "",
        id: str = "",  # noqa: A002 # as everywhere
    ) -> BudgetAccount:
        """Add an amount to the limit of an account for the present period; return the account.

        ``of`` is the tenant, key, workflow or job of the account; empty if the budget has one
        account. The same ``id`` again is the same grant; by default it is a new one.
        """
        request = _v1.GrantBudgetRequest(
            name=name, of=of, amount=to_millionths("amount", amount), reason=reason,
            id=id or new_id(),
        )  # fmt: skip
        got = await self._caller.ask("grant budget", _v1.BUDGETS_GRANT, request)
        return BudgetAccount._of(got.account)

    async def reset(
        self,
        name: str,
        *,
        of: str = "",
        all: bool = False,  # noqa: A002 # what it is called everywhere
        reason: str = "",
        id: str = "",  # noqa: A002 # as everywhere
    ) -> None:
        """Forget what was spent and granted in the present period.

        That is of one account, as in `grant`, or with ``all`` of all accounts of the budget.
        """
        request = _v1.ResetBudgetRequest(
            name=name, of=of, all=all, reason=reason, id=id or new_id()
        )
        await self._caller.ask("reset budget", _v1.BUDGETS_RESET, request)
