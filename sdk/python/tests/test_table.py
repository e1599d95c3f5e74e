"""What a worker believes, without a cluster."""

from types import SimpleNamespace

import pytest

from rota import RetryAfterKey, _beats, _joblog, _leases, _link, _table, _v1
from rota._host import outcome_of
from rota._table import Table


class Host:
    slots = 1
    capacity = 2

    def __init__(self):
        self.started = []
        self.cancelled = []
        self.events = []

    def runs(self, job_type):
        return job_type == "t"

    def start(self, lease):
        lease.cancel = lambda: self.cancelled.append(lease.job_id)
        self.started.append(lease)

    def changed(self):
        pass

    def observe(self, event):
        self.events.append(event)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        moment = 1000.0

    for module in (_beats, _leases, _link, _table):
        monkeypatch.setattr(module, "now", lambda: Clock.moment)
    return Clock


def assignment(job="j", kind="t", start=50_000, **more):
    lease = _v1.Lease(
        id=job.encode() * 4, job=job, token="1.1", started_clock_ms=start,
        ack_by_clock_ms=start + 5_000, deadline_clock_ms=start + 20_000,
    )  # fmt: skip
    spec = _v1.JobSpec(id=job, type=kind)
    return _v1.Assignment(
        lease=lease, spec=spec, renew_every_ms=12_000, lease_ms=20_000, renewals_max=-1, **more
    )


def beat(table, clock, cluster_ms):
    sequence = table.beat_sent(clock.moment).sequence
    table.beat(_v1.BeatAnswer(sequence=sequence, clock_ms=cluster_ms))


def sent(table, clock):
    clock.moment += 0.01
    request, _ = table.out.next(clock.moment)
    return [] if request is None else list(request.commands.commands)


def answer(table, sequence, *answers):
    table.answered(_v1.LeaseAnswers(sequence=sequence, answers=answers))


def test_no_handler_before_a_beat_was_answered(clock):
    table = Table(host := Host(), True)
    table.notice(_v1.Notices(assigned=[assignment()]))
    assert not host.started
    beat(table, clock, 50_000)
    assert [x.job_id for x in host.started] == ["j"]


def test_a_lease_that_is_not_acknowledged_ends_at_ack_by(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment()]))
    clock.moment += 3.9
    table.tick()
    assert not host.cancelled
    clock.moment += 0.2  # ack_by, less the second that a view keeps
    table.tick()
    assert host.cancelled == ["j"]
    assert host.started[0].lost is not None
    beat(table, clock, 50_100)  # the clock stood still: what ended stays ended
    assert host.started[0].lost is not None
    assert [c.verb for c in sent(table, clock)] == []  # not given back while its handler runs
    table.returned(host.started[0], False, {"verb": _v1.LEASE_VERB_COMPLETE})
    assert [c.verb for c in sent(table, clock)] == [_v1.LEASE_VERB_DECLINE]


def test_renewals_come_in_time(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment()]))
    assert [c.verb for c in sent(table, clock)] == [_v1.LEASE_VERB_ACK]
    answer(table, 1, _v1.LeaseAnswer(deadline_clock_ms=70_000))
    clock.moment += 11.1  # renew_by is 12 s after the start
    beat(table, clock, 61_000)
    table.tick()
    assert [c.verb for c in sent(table, clock)] == [_v1.LEASE_VERB_RENEW]
    answer(table, 2, _v1.LeaseAnswer(deadline_clock_ms=80_000, renewals=1))
    clock.moment += 10
    beat(table, clock, 71_000)
    table.tick()
    assert not host.cancelled


def test_silence_ends_what_runs(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    a = assignment()
    a.lease.deadline_clock_ms = 500_000
    a.lease.acked_clock_ms = 1
    table.notice(_v1.Notices(assigned=[a]))
    clock.moment += 29.9
    table.tick()
    assert not host.cancelled
    clock.moment += 0.2
    table.tick()
    assert host.cancelled == ["j"]
    assert "no beat was answered" in str(host.started[0].lost)


def test_a_grace_ends_it_sooner(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    a = assignment(grace_ms=10_000)
    a.lease.acked_clock_ms = 1
    table.notice(_v1.Notices(assigned=[a]))
    clock.moment += 6.9
    table.heard(table.beat_sent(clock.moment).sequence)  # heard, though not answered
    clock.moment += 6.9
    table.tick()
    assert not host.cancelled
    clock.moment += 0.2
    table.tick()
    assert host.cancelled == ["j"]


def test_max_runtime_is_reported_as_such(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    a = assignment(max_runtime_ms=5_000)
    a.lease.deadline_clock_ms = 55_000
    a.lease.acked_clock_ms = 1
    table.notice(_v1.Notices(assigned=[a]))
    clock.moment += 4.1
    table.tick()
    assert host.started[0].lost.reason == "TIMED_OUT"
    table.returned(host.started[0], True, {"verb": _v1.LEASE_VERB_FAIL, "text": "why"})
    (c,) = sent(table, clock)
    assert (c.verb, c.fail, c.text) == (_v1.LEASE_VERB_FAIL, _v1.FAIL_KIND_TIMED_OUT, "why")


def test_what_had_no_answer_is_sent_again_in_its_order(clock):
    table = Table(host := Host(), True)
    host.slots = host.capacity = 4
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment(j) for j in "abc"]))
    for x in list(host.started):
        table.returned(x, False, {"verb": _v1.LEASE_VERB_COMPLETE, "output": x.job_id.encode()})
    assert [c.output for c in sent(table, clock)] == [b"a", b"b", b"c"]
    table.broken()
    assert [c.output for c in sent(table, clock)] == [b"a", b"b", b"c"]
    kinds = [
        _v1.LeaseAnswer(),
        _v1.LeaseAnswer(refusal=_v1.Refusal(kind="UNAVAILABLE", text="election")),
        _v1.LeaseAnswer(refusal=_v1.Refusal(kind="STALE", text="not yours")),
    ]
    answer(table, 2, *kinds)
    clock.moment += 5
    assert [c.output for c in sent(table, clock)] == [b"b"]
    assert [(e.job, e.error is None) for e in host.events if e.kind == "reported"] == [
        ("a", True),
        ("c", False),
    ]


def test_a_refused_completion_is_a_failure(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment()]))
    table.returned(host.started[0], False, {"verb": _v1.LEASE_VERB_COMPLETE, "output": b"big"})
    sent(table, clock)
    answer(table, 1, _v1.LeaseAnswer(refusal=_v1.Refusal(kind="INVALID", text="too big")))
    (c,) = sent(table, clock)
    assert c.verb == _v1.LEASE_VERB_FAIL
    assert "too big" in c.text


def test_a_refused_pause_is_a_failure(clock):
    table, lease = running(clock)
    table.returned(lease, False, outcome_of(RetryAfterKey("host:1", 5, "status 429")))
    (c,) = sent(table, clock)
    snooze = (_v1.FAIL_KIND_SNOOZE, 5000, "host:1", "status 429")
    assert (c.fail, c.after_ms, c.pause_key, c.text) == snooze
    answer(table, 1, _v1.LeaseAnswer(refusal=_v1.Refusal(kind="INVALID", text="no key of it")))
    (c,) = sent(table, clock)
    assert (c.verb, c.fail, c.pause_key) == (_v1.LEASE_VERB_FAIL, 0, "")
    assert "no key of it" in c.text


def test_what_it_cannot_do_is_given_back(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    many = [assignment("x", kind="other"), *(assignment(j) for j in "abcd")]
    table.notice(_v1.Notices(assigned=many))
    assert [x.job_id for x in host.started] == ["a"]
    declined = [c.job for c in sent(table, clock) if c.verb == _v1.LEASE_VERB_DECLINE]
    assert declined == ["x", "c", "d"]


def test_another_session_voids_all(clock):
    table = Table(host := Host(), True)
    table.welcome(1)
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment()]))
    table.welcome(1)
    assert not host.cancelled
    table.welcome(2)
    assert host.cancelled == ["j"]
    table.returned(host.started[0], False, {"verb": _v1.LEASE_VERB_COMPLETE})
    assert sent(table, clock) == []


def test_progress_is_sent_once_a_second(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    a = assignment()
    a.lease.acked_clock_ms = 1
    table.notice(_v1.Notices(assigned=[a]))
    for percent in (10, 20, 300):
        table.progress(host.started[0], percent, "é" * 300)
    (c,) = sent(table, clock)
    assert c.progress == 10
    assert len(c.text.encode()) <= 256
    answer(table, 1, _v1.LeaseAnswer())
    table.tick()
    assert sent(table, clock) == []
    clock.moment += 1
    table.tick()
    assert [c.progress for c in sent(table, clock)] == [100]


def running(clock):
    """Return a table with one lease, which is acknowledged and whose handler runs."""
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    a = assignment()
    a.lease.acked_clock_ms = 1
    table.notice(_v1.Notices(assigned=[a]))
    return table, host.started[0]


def test_costs_are_sent_with_progress_once_a_second_and_with_the_outcome(clock):
    table, lease = running(clock)
    table.spend(lease, {"model": 1})
    table.spend(lease, {"model": 2})
    (c,) = sent(table, clock)
    assert (c.verb, c.progress, c.text, c.costs) == (_v1.LEASE_VERB_PROGRESS, 0, "", {"model": 1})
    answer(table, 1, _v1.LeaseAnswer())
    table.progress(lease, 40, "half")
    table.spend(lease, {"model": 3, "usd": 1})
    table.tick()
    assert sent(table, clock) == []
    clock.moment += 1
    table.tick()
    (c,) = sent(table, clock)
    assert (c.progress, c.text, c.costs) == (40, "half", {"model": 3, "usd": 1})
    answer(table, 2, _v1.LeaseAnswer())
    table.spend(lease, {"model": 4, "usd": 1})
    table.returned(lease, False, {"verb": _v1.LEASE_VERB_COMPLETE})
    final, outcome = sent(table, clock)
    assert (final.progress, final.ordinal, final.costs) == (40, 1, {"model": 4, "usd": 1})
    assert outcome.costs == {"model": 4, "usd": 1}
    answer(table, 3, _v1.LeaseAnswer(), _v1.LeaseAnswer(refusal=_v1.Refusal(kind="INVALID")))
    (c,) = sent(table, clock)
    assert (c.verb, c.costs) == (_v1.LEASE_VERB_FAIL, {"model": 4, "usd": 1})


@pytest.mark.parametrize("verb", [_v1.LEASE_VERB_FAIL, _v1.LEASE_VERB_DECLINE])
def test_costs_alone_end_with_one_command(clock, verb):
    table, lease = running(clock)
    table.spend(lease, {"model": 1})
    sent(table, clock)
    answer(table, 1, _v1.LeaseAnswer())
    table.spend(lease, {"model": 2})
    table.returned(lease, True, {"verb": verb})
    (c,) = sent(table, clock)
    assert (c.verb, c.costs) == (verb, {"model": 2})


def test_a_lost_lease_is_declined_with_its_costs(clock):
    table, lease = running(clock)
    table.spend(lease, {"model": 1})
    sent(table, clock)
    end = _v1.LeaseEnd(lease_id=lease.id, job="j", reason="CANCELLED")
    table.notice(_v1.Notices(revoked=[end]))
    table.spend(lease, {"model": 2})
    assert sent(table, clock) == []
    table.returned(lease, True, {"verb": _v1.LEASE_VERB_FAIL})
    (c,) = sent(table, clock)
    assert (c.verb, c.costs) == (_v1.LEASE_VERB_DECLINE, {"model": 2})


def test_a_lost_answer_starts_no_handler_twice(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment()]))
    table.returned(host.started[0], False, {"verb": _v1.LEASE_VERB_COMPLETE})
    sent(table, clock)
    answer(table, 1, _v1.LeaseAnswer())
    table.notice(_v1.Notices(assigned=[assignment()]))  # a replica that lags behind
    assert len(host.started) == 1
    assert not table.leases


def test_a_blocked_loop_gives_its_leases_back(clock):
    table = Table(host := Host(), True)
    beat(table, clock, 50_000)
    table.notice(_v1.Notices(assigned=[assignment("a"), assignment("b")]))
    assert table.give_back(frozenset({"t"}), "blocked") == 2
    verbs = {c.job: c.verb for c in sent(table, clock)}
    assert verbs == {"a": _v1.LEASE_VERB_DECLINE, "b": _v1.LEASE_VERB_DECLINE}
    answer(table, 1, _v1.LeaseAnswer(), _v1.LeaseAnswer())
    table.returned(host.started[0], False, {"verb": _v1.LEASE_VERB_COMPLETE})
    assert sent(table, clock) == []  # too late: it is not reported
    assert table.running == 0


class Wake:
    """The sender's condition. While it waits the clock moves on, and what is planned happens."""

    def __init__(self, table, clock):
        self.lock, self.clock = table.lock, clock
        self.until = 0.0
        self.events = []
        self.woken = False

    def at(self, moment, event):
        self.events.append((moment, event))
        self.events.sort(key=lambda e: e[0])

    def notify(self):
        self.woken = True

    def suspend(self, seconds):
        """Suspend the machine, which the clock counts and the wait does not."""
        self.clock.moment += seconds
        self.until += seconds

    def wait(self, timeout):
        self.woken = False  # nobody waited yet
        self.until = self.clock.moment + timeout
        self.lock.release()
        while not self.woken and self.events and self.events[0][0] <= self.until:
            self.clock.moment, event = self.events.pop(0)
            event()
        self.lock.acquire()
        if not self.woken:
            self.clock.moment = self.until


class Beating:
    """A worker's sender with a node that answers at once, until it falls silent."""

    def __init__(self, clock, every, silent):
        self.clock, self.every, self.silent = clock, every, clock.moment + silent
        self.begun = clock.moment
        self.table = Table(Host(), False)
        self.wake = self.table.send_wake = Wake(self.table, clock)

    def runs(self, job, begin, end, logs=None, **more):
        a = assignment(job, **more)
        a.lease.acked_clock_ms, a.lease.deadline_clock_ms, a.renew_every_ms = 1, 1_000_000, 0

        def lease():
            return self.table.leases[a.lease.id]

        def log():
            lease().log = _log_of("begun")

        def returns():
            self.table.returned(lease(), False, {"verb": _v1.LEASE_VERB_COMPLETE})

        self.wake.at(self.begun + begin, lambda: self.table.notice(_v1.Notices(assigned=[a])))
        for i in range(1, round(2 * (end - begin))):
            self.wake.at(self.begun + begin + i / 2, self.table.tick)  # the watch
        if logs is not None:
            self.wake.at(self.begun + logs, log)
        self.wake.at(self.begun + end, returns)

    def beats(self):
        """Return when it beat, and after how long it said to beat next, until it leaves."""
        node = SimpleNamespace(metadata=tuple)
        stream = _link._Stream(self.table, node, SimpleNamespace(next=_v1.Hello))
        stream._call = SimpleNamespace(cancel=lambda: None)
        stream.welcomed = True
        found = []
        for request in stream._requests():
            kind = request.WhichOneof("message")
            if kind == "beat":
                since = self.clock.moment - self.begun
                found.append((round(since, 3), request.beat.next_ms / 1000))
                if self.clock.moment < self.silent:
                    self.table.beat(
                        _v1.BeatAnswer(
                            sequence=request.beat.sequence,
                            clock_ms=50_000 + int(since * 1000),
                            every_ms=self.every,
                        )
                    )
            elif kind == "commands":
                answer(self.table, request.commands.sequence, _v1.LeaseAnswer())
        assert stream._why == "the node answers no beat"
        return found, round(self.clock.moment - self.begun, 3)


def _log_of(text):
    log = _joblog.JobLog()
    log.write(text)
    return log


def test_an_idle_worker_beats_as_seldom_as_the_cluster_asks_for(clock):
    b = Beating(clock, 12_000, silent=75)
    b.runs("before-half", 25, 35)
    b.runs("after-half", 43.3, 44.3)
    b.runs("graced", 54, 57, grace_ms=20_000)
    b.runs("logging", 64, 71, logs=67.3)
    assert b.beats() == (
        [
            (0, 2), (2, 10), (12, 10), (22, 10),
            (27, 5), (32, 5), (37, 10),
            (43.3, 5), (48.3, 10),
            (54, 2), (56, 2), (58, 10),
            (64, 5), (67.5, 2), (69.5, 2), (71.5, 10),
            (81.5, 10), (83.5, 10), (85.5, 10),
        ],
        87.5,
    )  # fmt: skip


def test_a_worker_beats_no_more_often_than_every_two_seconds(clock):
    b = Beating(clock, 3_000, silent=9)
    b.runs("busy", 3, 5)
    assert b.beats() == ([(0, 2), (2, 3), (4, 2), (6, 3), (9, 3), (11, 3), (13, 3)], 15)


def test_a_node_that_asks_for_nothing_hears_one_every_two_seconds(clock):
    b = Beating(clock, 0, silent=5)
    assert b.beats() == ([(0, 2), (2, 2), (4, 2), (6, 2), (8, 2), (10, 2)], 12)


def test_a_suspended_worker_beats_soon_after(clock):
    b = Beating(clock, 10_000, silent=40)
    b.wake.at(b.begun + 15, lambda: b.wake.suspend(20))
    found, _ = b.beats()
    assert found[:5] == [(0, 2), (2, 10), (12, 10), (36, 10), (46, 10)]
