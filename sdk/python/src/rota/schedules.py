"""Schedules: jobs that are due on dates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from . import _v1
from ._calls import Caller
from ._read import Page, ReadOptions, pages, read_of
from ._rpc import from_refusal
from ._values import Span, from_unix_ms, new_id, to_ms, to_unix_ms
from .records import JobOutcome
from .spec import JobSpec, to_wire

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Schedule:
    """A schedule in its present state: ACTIVE, PAUSED or DONE."""

    name: str
    state: str
    why: str
    cron: str
    tz: str
    next: datetime | None
    live: tuple[str, ...]
    waiting: tuple[str, ...]
    runs: int
    skipped: int
    missed: int
    failed: int
    # : Its version, for ``if_match``.
    etag: str

    @classmethod
    def _of(cls, w: _v1.Schedule) -> Schedule:
        return cls(
            w.spec.name, w.state, w.why, w.spec.cron, w.spec.tz, from_unix_ms(w.next_ms),
            tuple(w.live), tuple(w.waiting), w.runs, w.skipped, w.missed, w.failed,
            w.etag,
        )  # fmt: skip


class Schedules:
    """The calls for schedules: `Client.schedules`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def set(
        self,
        name: str,
        job: JobSpec,
        *,
        cron: str = "",
        every: Span | None = None,
        dates: Sequence[datetime] = (),
        tz: str = "",
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = 0,
        jitter: Span | None = None,
        overlap: str = "",
        catch_up: Span | None = None,
        catch_up_max: int | None = None,
        pause_on_failure: bool = False,
        if_match: str = "",
    ) -> Schedule:
        """Create or replace a schedule; setting the same again changes nothing.

        Give one of ``cron``, ``every`` and ``dates``; ``tz`` is the time zone of ``cron``, such as
        Europe/Berlin. ``overlap`` is ``skip``, ``queue_one``, ``queue_all``, ``cancel`` or
        ``allow``. With ``if_match``, the etag of a schedule that was read, only that version is
        replaced: a `Conflict` of ``version`` means that it has been changed since.
        """
        spec = _v1.ScheduleSpec(
            name=name, cron=cron, every_ms=to_ms(every),
            dates_ms=[to_unix_ms(d, "dates") for d in dates], tz=tz,
            start_ms=to_unix_ms(start, "start"), end_ms=to_unix_ms(end, "end"), limit=limit,
            jitter_ms=to_ms(jitter), overlap=overlap,
            catch_up_ms=None if catch_up is None else to_ms(catch_up),
            catch_up_max=catch_up_max, pause_on_failure=pause_on_failure, job=to_wire(job),
        )  # fmt: skip
        request = _v1.SetScheduleRequest(spec=spec, if_match=if_match)
        return Schedule._of(await self._caller.ask("set schedule", _v1.SCHEDULES_SET, request))

    async def get(self, name: str, **read: Unpack[ReadOptions]) -> Schedule:
        """Read one schedule."""
        request = _v1.GetScheduleRequest(name=name, read=read_of(read))
        got = await self._caller.ask("show schedule", _v1.SCHEDULES_GET, request)
        return Schedule._of(got.schedule)

    def list(self, **read: Unpack[ReadOptions]) -> AsyncIterator[Schedule]:
        """List all schedules by name."""

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.Schedule]:
            request = _v1.ListSchedulesRequest(read=how, limit=most, cursor=cursor)
            got = await self._caller.ask("list schedules", _v1.SCHEDULES_LIST, request)
            return got.schedules, got.next_cursor, got.at

        return pages(read, None, ask, Schedule._of)

    async def pause(self, name: str, reason: str, *, if_match: str = "") -> Schedule:
        """Stop a schedule from starting runs until it is resumed; the reason is shown."""
        request = _v1.PauseScheduleRequest(name=name, reason=reason, if_match=if_match)
        return Schedule._of(await self._caller.ask("pause schedule", _v1.SCHEDULES_PAUSE, request))

    async def resume(self, name: str, *, catch_up: bool = False, if_match: str = "") -> Schedule:
        """Resume a paused schedule: from now on, or with ``catch_up`` from where it stopped."""
        request = _v1.ResumeScheduleRequest(name=name, catch_up=catch_up, if_match=if_match)
        return Schedule._of(
            await self._caller.ask("resume schedule", _v1.SCHEDULES_RESUME, request)
        )

    async def trigger(self, name: str, run: str = "") -> JobOutcome:
        """Run a schedule's job now, as NAME@+RUN; the same run again is the same job."""
        request = _v1.TriggerScheduleRequest(name=name, id=run or new_id())
        w = await self._caller.ask("trigger schedule", _v1.SCHEDULES_TRIGGER, request)
        if w.HasField("refusal"):
            raise from_refusal(w.refusal)
        return JobOutcome._of(w)

    async def delete(self, name: str, *, if_match: str = "") -> None:
        """Delete a schedule and keep its runs; a missing schedule is not an error."""
        request = _v1.DeleteScheduleRequest(name=name, if_match=if_match)
        await self._caller.ask("delete schedule", _v1.SCHEDULES_DELETE, request)

    async def next(
        self, name: str, most: int = 10, **read: Unpack[ReadOptions]
    ) -> Sequence[datetime]:
        """Return the next dates of a schedule."""
        request = _v1.NextDatesRequest(name=name, limit=most, read=read_of(read))
        got = await self._caller.ask("next dates", _v1.SCHEDULES_NEXT, request)
        return [d for ms in got.dates_ms if (d := from_unix_ms(ms)) is not None]
