"""A job type with the types of its handler's input and output, defined once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ._values import Span, to_seconds
from .codec import Codec, codec_of
from .errors import Denied, Invalid, JobFailed, OutOfRange, Timeout
from .records import JobInfo, Submitted
from .spec import JobOptions, JobSpec, merged

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._read import ReadOptions
    from .client import Client
    from .job import Job
    from .workflows import Node

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Result(Generic[Out]):
    """A handler may return this instead of a plain value, to add more to its result.

    Attributes:
        value: the output.
        meta: shown with the job, at most 32 pairs of at most 128 bytes each.
        children: nodes that a workflow's node adds to the workflow when it completes.
        detached: nodes that wait for this node do not wait for those children.
    """

    value: Out
    meta: dict[str, str] = field(default_factory=dict)
    children: Sequence[Node] = ()
    detached: bool = False


class Definition(Generic[In, Out]):
    """A job type with the types of its payload and its output.

    Create it with `define`, usually once in a module that both producers and workers import.
    """

    def __init__(
        self, type_: str, input_: Codec[In], output: Codec[Out], options: JobOptions
    ) -> None:
        self.type = type_
        self.input = input_
        self.output = output
        self._spec = merged(JobSpec(type_), options)
        self.run: Callable[[Job, In], Any] | None = None

    @property
    def queue(self) -> str:
        """The queue of its jobs."""
        return self._spec.queue or "default"

    @overload
    def handler(
        self, run: Callable[[Job, In], Awaitable[Out | Result[Out]]]
    ) -> Callable[[Job, In], Awaitable[Out | Result[Out]]]: ...

    @overload
    def handler(
        self, run: Callable[[Job, In], Out | Result[Out]]
    ) -> Callable[[Job, In], Out | Result[Out]]: ...

    def handler(self, run: Callable[[Job, In], Any]) -> Callable[[Job, In], Any]:
        """Make workers run jobs of this type with a function of the job and its value.

        A coroutine function runs on the event loop of `Worker.run`, any other function in a thread.
        Returning completes the job; `RetryAfter`, `Snooze`, `NoRetry`, `Cancel` and `Decline` act
        as documented, and any other exception fails the attempt.
        """
        if self.run is not None:
            raise Invalid(f"type {self.type} has a handler already", subject="handler")
        self.run = run
        return run

    def job(self, value: In, **options: Unpack[JobOptions]) -> JobSpec:
        """Return a job, for `Client.submit` together with other jobs, or for a schedule."""
        try:
            payload = self.input.encode(value)
        except (TypeError, ValueError) as e:
            raise Invalid(
                f"a job of type {self.type} cannot be made of the {type(value).__name__}: {e}",
                subject="payload",
            ) from e
        return replace(merged(self._spec, options), payload=payload)

    async def submit(self, client: Client, value: In, **options: Unpack[JobOptions]) -> Handle[Out]:
        """Submit one job and return its handle; raise `Refused` if the cluster refused it.

        With your own id it is safe to submit again: the same id is the same job.
        """
        outcome = (await client.submit(self.job(value, **options)))[0]
        return Handle(client, self.output, outcome.holder or outcome.id, outcome)

    def of(self, client: Client, job: str) -> Handle[Out]:
        """Return the handle of a job that was submitted earlier. It makes no call."""
        return Handle(client, self.output, job, Submitted(job))


class Handle(Generic[Out]):
    """A submitted job.

    Attributes:
        id: the job's id; if it was merged into another job, the id of the job that holds the key.
        submitted: the outcome of the submission.
    """

    def __init__(self, client: Client, output: Codec[Out], job: str, submitted: Submitted) -> None:
        self._client = client
        self._output = output
        self.id = job
        self.submitted = submitted

    async def result(self, timeout: Span | None = None) -> Out:
        """Wait until the job has ended and return its output.

        Raises `JobFailed` if it ended in a state other than COMPLETED, `Timeout` if the time was
        over first, `OutOfRange` if the output is no longer kept.
        """
        waiting = self._client.wait(self.id)
        try:
            job = await asyncio.wait_for(waiting, None if timeout is None else to_seconds(timeout))
        except Timeout:
            raise
        except (asyncio.TimeoutError, TimeoutError):
            raise Timeout(
                f"job {self.id} did not end in time", op="wait", subject=self.id
            ) from None
        return output_of(job, self._output)

    async def job(self, **read: Unpack[ReadOptions]) -> JobInfo:
        """Read the job."""
        return await self._client.job(self.id, **read)

    async def cancel(self) -> None:
        """Cancel the job; raise `Conflict` if it has ended."""
        outcome = (await self._client.cancel(self.id))[0]
        if outcome.error is not None:
            raise outcome.error


_NOTHING = hashlib.sha256(b"").digest()


def output_of(job: JobInfo, codec: Codec[Out]) -> Out:
    """Return the output of a job that has ended."""
    if job.state != "COMPLETED":
        raise JobFailed(job)
    if not job.output:
        if job.record_dropped:
            raise OutOfRange(
                f"job {job.id} is COMPLETED, and its output is no longer kept: archive_retention "
                "of its queue says for how long",
                subject="output",
            )
        if job.output_digest != _NOTHING:
            raise Denied(
                f"job {job.id} is COMPLETED, and its output is not shown: that takes the right "
                "data",
                subject="output",
            )
    try:
        return codec.decode(job.output)
    except (TypeError, ValueError) as e:
        raise Invalid(f"the output of job {job.id} does not fit: {e}", subject="output") from e


@overload
def define(type_: str, /, **options: Unpack[JobOptions]) -> Definition[Any, Any]: ...


@overload
def define(
    type_: str, input_: None, output: None = None, /, **options: Unpack[JobOptions]
) -> Definition[None, None]: ...


@overload
def define(
    type_: str, input_: None, output: type[Out], /, **options: Unpack[JobOptions]
) -> Definition[None, Out]: ...


@overload
def define(
    type_: str, input_: type[In], output: None = None, /, **options: Unpack[JobOptions]
) -> Definition[In, None]: ...


@overload
def define(
    type_: str, input_: type[In], output: type[Out], /, **options: Unpack[JobOptions]
) -> Definition[In, Out]: ...


@overload
def define(
    type_: str, input_: object, output: object = None, /, **options: Unpack[JobOptions]
) -> Definition[Any, Any]: ...


def define(
    type_: str, input_: Any = Any, output: Any = Any, /, **options: Unpack[JobOptions]
) -> Definition[Any, Any]:
    """Return the definition of a job type.

    The types of its handler's input and output may be dataclasses, pydantic models, TypedDicts or
    plain JSON types; bytes are passed unchanged. Options apply to every job of the definition::

        resize = rota.define("resize", Photo, Thumb, queue="images", max_runtime=120)
    """
    return Definition(type_, codec_of(input_), codec_of(output), options)
