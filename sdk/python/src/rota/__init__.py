"""Client and worker of rota, a replicated job scheduler.

Define a job type once, submit jobs of it, and let workers run them::

    import rota

    resize = rota.define("resize", Photo, Thumb, queue="images")

    @resize.handler
    async def run(job: rota.Job, photo: Photo) -> Thumb: ...

    async with rota.connect("a:6470,b:6470") as c:
        h = await resize.submit(c, photo, id="photo-4711")
        thumb = await h.result(timeout=30)

    async with rota.connect_env() as c:
        await rota.Worker(c, [resize], concurrency=8).run()

`rota.sync` has the same API for programs without an event loop.
"""

from ._leases import WorkerEvent
from ._nodes import TLS
from .budgets import Budget, BudgetAccount, BudgetChange, BudgetState
from .client import Client, connect, connect_env
from .codec import Codec
from .definition import Definition, Handle, Result, define
from .errors import (
    Conflict,
    Denied,
    Exhausted,
    HeldBack,
    Internal,
    Invalid,
    JobFailed,
    LeaseLost,
    Mode,
    NotFound,
    OutOfRange,
    Refused,
    RotaError,
    Stale,
    Timeout,
    Unauthenticated,
    Unavailable,
    Unreported,
)
from .job import Job, JobLogHandler, Token, current_job
from .outcomes import Cancel, Decline, NoRetry, RetryAfter, RetryAfterKey, Snooze
from .queues import Batch, KeyRule, Plan
from .records import (
    Attempt,
    AttemptLog,
    Eta,
    Event,
    HangsOn,
    JobCount,
    JobGroup,
    JobInfo,
    JobOutcome,
    LeaseInfo,
    LogPart,
    ParentOutput,
    QueueInfo,
    SettingChange,
    Submitted,
    Why,
    WhyReason,
    WorkerInfo,
)
from .schedules import Schedule
from .spec import JobOptions, JobSpec, Retry, Unique
from .worker import Worker
from .workflows import Gate, Node, Workflow, WorkflowNode, WorkflowSubmitted

__all__ = [
    "TLS",
    "Attempt",
    "AttemptLog",
    "Batch",
    "Budget",
    "BudgetAccount",
    "BudgetChange",
    "BudgetState",
    "Cancel",
    "Client",
    "Codec",
    "Conflict",
    "Decline",
    "Definition",
    "Denied",
    "Eta",
    "Event",
    "Exhausted",
    "Gate",
    "Handle",
    "HangsOn",
    "HeldBack",
    "Internal",
    "Invalid",
    "Job",
    "JobCount",
    "JobFailed",
    "JobGroup",
    "JobInfo",
    "JobLogHandler",
    "JobOptions",
    "JobOutcome",
    "JobSpec",
    "KeyRule",
    "LeaseInfo",
    "LeaseLost",
    "LogPart",
    "Mode",
    "NoRetry",
    "Node",
    "NotFound",
    "OutOfRange",
    "ParentOutput",
    "Plan",
    "QueueInfo",
    "Refused",
    "Result",
    "Retry",
    "RetryAfter",
    "RetryAfterKey",
    "RotaError",
    "Schedule",
    "SettingChange",
    "Snooze",
    "Stale",
    "Submitted",
    "Timeout",
    "Token",
    "Unauthenticated",
    "Unavailable",
    "Unique",
    "Unreported",
    "Why",
    "WhyReason",
    "Worker",
    "WorkerEvent",
    "WorkerInfo",
    "Workflow",
    "WorkflowNode",
    "WorkflowSubmitted",
    "connect",
    "connect_env",
    "current_job",
    "define",
]
