import copy
import dataclasses
import json
import pickle
from datetime import datetime, timedelta, timezone
from decimal import Decimal, localcontext
from pathlib import Path

import grpc
import pytest

import rota
from rota import _v1
from rota._joblog import HEAD_MOST, LINE_MOST, TAIL_MOST, JobLog
from rota._rpc import from_rpc
from rota._submit import Restraint
from rota._values import from_unix_ms, new_id, to_ms
from rota.budgets import Budgets
from rota.errors import KINDS, of_kind
from rota.spec import from_wire, to_wire


class FakeCall(grpc.RpcError, grpc.Call):
    def __init__(self, code, details="", trailer=()):
        self._is = code, details, trailer

    def code(self):
        return self._is[0]

    def details(self):
        return self._is[1]

    def trailing_metadata(self):
        return self._is[2]

    initial_metadata = is_active = time_remaining = cancel = add_callback = lambda *_: None


FakeCall.__abstractmethods__ = frozenset()


def status(kind, text, after_ms=0, **meta):
    w = _v1.RpcStatus(code=8, message=text)
    info = _v1.ErrorInfo(reason=kind, domain="rota", metadata=meta)
    w.details.add(
        type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString()
    )
    if after_ms:
        delay = _v1.DurationMessage(seconds=after_ms // 1000, nanos=after_ms % 1000 * 10**6)
        retry = _v1.RetryInfo(retry_delay=delay)
        w.details.add(
            type_url="type.googleapis.com/google.rpc.RetryInfo", value=retry.SerializeToString()
        )
    return (("grpc-status-details-bin", w.SerializeToString()),)


def test_every_kind_has_a_class():
    assert len(KINDS) == 12
    for kind, cls in KINDS.items():
        e = of_kind(kind, "no", op="submit", subject="queue", retry_after=1.5)
        assert type(e) is cls
        assert e.kind == kind
        assert str(e) == "submit: no"
        again = pickle.loads(pickle.dumps(e))
        assert (type(again), again.text, again.retry_after) == (cls, "no", 1.5)
        assert copy.copy(e).subject == "queue"
    assert issubclass(rota.Timeout, TimeoutError)
    assert issubclass(rota.HeldBack, rota.Exhausted)


def test_details_decide():
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    e = from_rpc(FakeCall(code, "full", status("EXHAUSTED", "full", 1500, subject="queue", op="x")))
    assert (type(e), e.subject, e.op, e.retry_after) == (rota.Exhausted, "queue", "x", 1.5)
    e = from_rpc(FakeCall(grpc.StatusCode.INTERNAL, "mode", status("MODE", "mode")))
    assert isinstance(e, rota.Mode)


def test_codes_without_details():
    for code, cls in [
        (grpc.StatusCode.UNAVAILABLE, rota.Unavailable),
        (grpc.StatusCode.CANCELLED, rota.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, rota.Timeout),
        (grpc.StatusCode.UNIMPLEMENTED, rota.Invalid),
        (grpc.StatusCode.DATA_LOSS, rota.Internal),
    ]:
        assert type(from_rpc(FakeCall(code, "no"))) is cls
    big = FakeCall(grpc.StatusCode.RESOURCE_EXHAUSTED, "Sent message larger than max (5 vs. 4)")
    assert isinstance(from_rpc(big), rota.Invalid)


def test_restraint_holds_new_jobs_back():
    held = Restraint()
    full = _v1.JobSpec(queue="q", type="t")
    held.note(full, rota.Exhausted("full", subject="queue", retry_after=5))
    e = held.refuses(full)
    assert isinstance(e, rota.HeldBack)
    assert 4 < e.retry_after <= 6.25
    assert held.refuses(_v1.JobSpec(queue="other")) is None
    assert held.refuses(_v1.JobSpec(queue="q", priority=0)) is None  # has room longer
    held.note(
        _v1.JobSpec(tenant="a"), rota.Exhausted("rate", subject="rate_limit_rps", retry_after=3)
    )
    assert held.refuses(_v1.JobSpec(tenant="a")) is not None
    assert held.refuses(_v1.JobSpec(tenant="b")) is None


def test_log_keeps_the_first_and_the_last_lines():
    log = JobLog()
    log.write("first\n")
    assert [(p.at, p.text) for p in log.since(0)] == [(0, b"first\n")]
    assert log.since(6) == []
    for i in range(20_000):
        log.write(f"line {i}")
    parts = log.since(0)
    assert parts[0].text.startswith(b"first\nline 0\n")
    assert parts[1].text.endswith(b"line 19999\n")
    assert parts[1].cut_lines > 0
    w = _v1.AttemptLog.FromString(log.encoded())
    assert len(w.head) <= HEAD_MOST
    assert len(w.tail) <= TAIL_MOST
    total = 6 + sum(len(f"line {i}\n") for i in range(20_000))
    assert len(w.head) + len(w.tail) + w.cut_bytes == total
    assert parts[1].end == total
    log.write("x" * 10_000)
    last = log.since(total)[0].text
    assert len(last) <= LINE_MOST
    assert last.endswith(b" [5968 bytes of this line were cut]\n")


def test_durations_and_moments():
    assert [to_ms(s) for s in (None, 0, 0.0001, 1.5, timedelta(minutes=1))] == [
        0,
        0,
        1,
        1500,
        60000,
    ]
    assert from_unix_ms(1) == datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=timezone.utc)
    assert from_unix_ms(2**62).year == 9999
    ids = [new_id() for _ in range(100)]
    assert len(set(ids)) == 100
    assert {len(i) for i in ids} == {26}


def test_specs_come_back_as_they_went():
    spec = rota.JobSpec(
        type="t", payload=b"x", id="a", queue="q", tenant="u", priority=0,
        delay=timedelta(seconds=1), at=datetime(2027, 1, 1, tzinfo=timezone.utc),
        ttl=timedelta(hours=1), keys=("album:7",),
        retry=rota.Retry(attempts=3, base=timedelta(seconds=2), factor=1.5, jitter=0),
        unique=rota.Unique(by=("args",), period=timedelta(hours=1)), labels={"a": "b"},
        requires=("gpu",), limits={"vram": 4}, batch="b", max_runtime=timedelta(seconds=9),
        costs={"model": Decimal(8000), "usd": Decimal("0.25")},
    )  # fmt: skip
    assert from_wire(to_wire(spec)) == spec
    assert to_wire(rota.JobSpec("t", keys={"album": "7"})).keys == ["album:7"]
    assert to_wire(rota.JobSpec("t", retry=4)).retry_attempts == 4
    more = spec.with_options(labels={"c": "d"}, priority=3, costs={"usd": 1})
    assert more.labels == {"a": "b", "c": "d"}
    assert more.priority == 3
    assert more.costs == {"model": 8000, "usd": 1}


def test_costs_are_exact_decimals():
    costs = {"a": 8000, "b": 0.1, "c": Decimal("0.000001"), "d": 10**12, "e": 0, "f": 1e3}
    with localcontext() as context:
        context.prec = 3
        wire = to_wire(rota.JobSpec("t", costs=costs))
        got = from_wire(wire).costs
    assert wire.costs == {
        "a": 8_000_000_000, "b": 100_000, "c": 1, "d": 10**18, "e": 0, "f": 1_000_000_000,
    }  # fmt: skip
    assert {name: str(amount) for name, amount in got.items()} == {
        "a": "8000", "b": "0.1", "c": "0.000001", "d": "1000000000000", "e": "0", "f": "1000",
    }  # fmt: skip
    for wrong in (0.1 + 0.2, 1e-7, Decimal("1.0000001"), Decimal(f"1.{'0' * 40}1")):
        with pytest.raises(rota.Invalid) as refused:
            to_wire(rota.JobSpec("t", costs={"usd": wrong}))
        text = f"costs: got usd={wrong}; use at most six digits after the point"
        assert (refused.value.text, refused.value.subject) == (text, "costs")


def test_totals_of_an_attempt_only_grow():
    sent = []
    job = rota.Job(_v1.JobSpec(id="a"), spend=lambda costs: sent.append(dict(costs)))
    assert job.spent == {}
    job.spend("model", 0.1 + 0.2)
    job.spend("usd", Decimal("0.25"))
    job.spend("usd", 0.25)
    assert sent[-1] == {"model": 300_000, "usd": 250_000}
    assert job.spent == {"model": Decimal("0.3"), "usd": Decimal("0.25")}
    for i in range(6):
        job.spend(f"c{i}", 0)
    before, count = job.spent, len(sent)
    for name, total, says in [
        ("model", 0.2, "costs: got model=0.2 after 0.3; report the total of the attempt"),
        ("model", -1, "use an amount from 0 to 1000000000000"),
        ("model", 2e12, "use an amount from 0"),
        ("model", float("nan"), "use an amount from 0"),
        ("model", "many", "use an amount from 0"),
        ("a:b", 1, "costs: got the name 'a:b'"),
        ("", 1, "costs: got the name ''"),
        ("c6", 1, "too many costs: got 9, maximum 8"),
    ]:
        with pytest.raises(rota.Invalid, match=says):
            job.spend(name, total)
    assert (job.spent, len(sent)) == (before, count)


class Asked:
    """Keeps requests, and gives one answer to all of them."""

    def __init__(self, answer=None):
        self.answer = answer
        self.requests = []

    async def ask(self, op, method, request):
        self.requests.append((op, request))
        return self.answer


def test_budgets_come_back_as_they_went():
    budget = rota.Budget(
        "acme-month", "usd", Decimal("500.25"), tenant="acme", queue="q", key="model:large",
        each="workflow", default_cost=0.1, every="month", tz="Europe/Berlin", warn=0.8, then="ask",
        stop=True, etag="7",
    )  # fmt: skip
    wire = budget._wire()
    assert (wire.limit, wire.default_cost, wire.warn_permille) == (500_250_000, 100_000, 800)
    got = rota.Budget._of(wire)
    assert got == dataclasses.replace(budget, default_cost=Decimal("0.1"))
    plain = rota.Budget("a", "usd", 0)
    assert rota.Budget._of(plain._wire()) == plain
    assert (plain._wire().each, plain._wire().every, plain._wire().then) == ("none", "none", "hold")
    assert dataclasses.replace(plain, warn=0.0001)._wire().warn_permille == 1
    for field, value, says in [
        ("limit", -1, "limit: got -1; use an amount from 0 to 1000000000000"),
        ("default_cost", 1e-7, "default_cost: got 1e-07; use at most six digits after the point"),
        ("warn", 1.1, "warn must be between 0 and 1, got 1.1"),
    ]:
        with pytest.raises(rota.Invalid) as refused:
            dataclasses.replace(plain, **{field: value})._wire()
        assert (refused.value.text, refused.value.subject) == (says, field)


async def test_states_of_budgets_are_in_units():
    budget = _v1.Budget(name="a", unit="usd", limit=2_000_000)
    state = _v1.BudgetState(
        budget=budget, since_ms=1, accounts=2, spent=1_500_000, reserved=1, granted=250_000, held=1
    )
    asked = Asked(_v1.SetBudgetResponse(budget=state))
    got = await Budgets(asked).set(rota.Budget("a", "usd", 2), if_match="*")
    assert got == rota.BudgetState(
        rota.Budget("a", "usd", Decimal(2), each="", every="", then=""), from_unix_ms(1), None, 2,
        Decimal("1.5"), Decimal("0.000001"), Decimal("0.25"), 1,
    )  # fmt: skip
    ((op, request),) = asked.requests
    assert (op, request.if_match, request.budget.limit) == ("set budget", "*", 2_000_000)
    asked = Asked(
        _v1.ListBudgetAccountsResponse(
            accounts=[
                _v1.BudgetAccount(
                    budget="a", of="acme", limit=3_000_000, spent=1, reserved=500_000,
                    left=2_499_999, granted=1_000_000, waiting=4, held=3, warned=True, empty_ms=9,
                    changes=[
                        _v1.BudgetChange(id="1", amount=1_000_000, reason="why", by="ann", at_ms=5),
                        _v1.BudgetChange(id="2", at_ms=6),
                    ],
                )
            ]
        )
    )  # fmt: skip
    (account,) = [x async for x in Budgets(asked).accounts("a", of="acme", held=True, limit=9)]
    assert account == rota.BudgetAccount(
        "a", "acme", Decimal(3), Decimal("0.000001"), Decimal("0.5"), Decimal("2.499999"),
        Decimal(1), 4, 3, True, False, False, from_unix_ms(9),
        (
            rota.BudgetChange("1", Decimal(1), "why", "ann", from_unix_ms(5)),
            rota.BudgetChange("2", Decimal(0), "", "", from_unix_ms(6)),
        ),
    )  # fmt: skip
    ((_, request),) = asked.requests
    assert (request.name, request.of, request.held, request.limit) == ("a", "acme", True, 9)


async def test_grants_and_resets_have_ids():
    asked = Asked(_v1.GrantBudgetResponse())
    budgets = Budgets(asked)
    await budgets.grant("a", 0.5)
    await budgets.grant("a", Decimal("0.5"), of="acme", reason="launch", id="mine")
    await budgets.reset("a", of="acme", reason="refund")
    await budgets.reset("a", all=True, id="mine")
    grant, named, reset, every = (request for _, request in asked.requests)
    assert (grant.name, grant.amount, grant.of, len(grant.id)) == ("a", 500_000, "", 26)
    assert named == _v1.GrantBudgetRequest(
        name="a", of="acme", amount=500_000, reason="launch", id="mine"
    )
    assert (reset.of, reset.all, reset.reason, len(reset.id)) == ("acme", False, "refund", 26)
    assert grant.id != reset.id
    assert every == _v1.ResetBudgetRequest(name="a", all=True, id="mine")
    with pytest.raises(rota.Invalid, match="amount: got -1; use an amount from 0"):
        await budgets.grant("a", -1)


def test_retry_options():
    """Ratios, of which jitter 0 is none and what is unset is the queue's."""
    wire = to_wire(rota.JobSpec("t", retry=rota.Retry(attempts=3, factor=1.5, jitter=0)))
    assert (wire.retry_attempts, wire.retry_factor_permille, wire.retry_jitter_permille) == (
        3, 1500, -1,
    )  # fmt: skip
    wire = to_wire(rota.JobSpec("t", retry=rota.Retry(jitter=0.25)))
    assert (wire.retry_attempts, wire.retry_factor_permille, wire.retry_jitter_permille) == (
        0, 0, 250,
    )  # fmt: skip
    for wrong in (rota.Retry(jitter=-1), rota.Retry(factor=0.5)):
        with pytest.raises(rota.Invalid, match="must be between"):
            to_wire(rota.JobSpec("t", retry=wrong))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: to_wire(rota.JobSpec("t", at=datetime(2027, 1, 1))), "no time zone"),
        (lambda: to_wire(rota.JobSpec("t", keys="album:7")), "a mapping"),
        (lambda: to_wire(rota.JobSpec("t", fee=2**70)), "refused"),
        (lambda: to_wire(rota.JobSpec("t", payload="text")), "refused"),
        (
            lambda: rota.define("t", int, int, prioritee=1),
            "did you mean priority",
        ),
        (lambda: rota.define("t", int, int).job(float("nan")), "cannot be made"),
        (lambda: rota.connect(""), "no node address"),
        (lambda: rota.connect("nohost"), "host:port"),
        (lambda: rota.connect("a:99999"), "host:port"),
        (lambda: rota.connect("::1:80"), "host:port"),
        (lambda: rota.connect("db.example:6470", token="rota_a_b"), "clear text"),
        (lambda: rota.connect("127.0.0.1:1", token="secret"), "rota_ID_SECRET"),
        (lambda: rota.connect("127.0.0.1:1", token="rota_a\nb"), "rota_ID_SECRET"),
        (lambda: rota.connect("127.0.0.1:1", tls=rota.TLS(ca="/nowhere")), "cannot be used"),
        (lambda: rota.connect("127.0.0.1:1", tls=rota.TLS(cert=b"x")), "belong together"),
        (lambda: rota.connect_env(environ={"ROTA_ADDR": "x"}), "host:port"),
        (lambda: rota.connect_env(environ={"ROTA_TLS_CA": "/nowhere"}), "cannot be used"),
        (lambda: rota.Worker(rota.connect("127.0.0.1:1"), []), "a definition at least"),
        (lambda: rota.Worker(rota.connect("127.0.0.1:1"), [rota.define("t")]), "no handler"),
    ],
)
def test_what_is_wrong_is_refused(wrong, says):
    with pytest.raises(rota.Invalid, match=says):
        wrong()


async def test_nobody_answers():
    async with rota.connect("127.0.0.1:1,127.0.0.1:2", timeout=0.5) as c:
        with pytest.raises(rota.Unavailable, match=r"no node of 127.0.0.1:1, 127.0.0.1:2 answered"):
            await c.job("x")
    with pytest.raises(rota.Unavailable, match="closed"):
        await c.job("x")


def test_tokens_compare_by_age():
    assert rota.Token.parse("2.1") > rota.Token.parse("1.10") > rota.Token.parse("1.9")
    assert str(rota.Token(3, 4)) == "3.4"


_ENVIRONMENT = Path(__file__).parents[3] / "testdata" / "environment" / "cases.json"


@pytest.mark.parametrize(
    "case", json.loads(_ENVIRONMENT.read_text("utf-8")), ids=lambda case: case["name"]
)
def test_environment(case, tmp_path):
    """The cases that the command line and all client libraries share."""
    if "file" in case:
        (tmp_path / "token").write_text(case["file"])
        (tmp_path / "token").chmod(case["mode"])
    environ = {k: v.replace("$DIR", str(tmp_path)) for k, v in case["env"].items()}
    if "refused" in case:
        with pytest.raises(rota.Invalid) as refused:
            rota.connect_env(environ=environ)
        assert refused.value.subject == case["refused"]
        return
    caller = rota.connect_env(environ=environ)._caller
    assert [n.address for n in caller.nodes] == case["addresses"]
    assert caller.patience == case["timeout_ms"] / 1000
    shown = caller.nodes[0].metadata()
    assert shown == ((("authorization", "Bearer " + case["token"]),) if "token" in case else ())
