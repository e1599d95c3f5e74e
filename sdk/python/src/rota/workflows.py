"""Workflows: graphs of jobs, admitted as a whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from . import _nodes, _v1
from ._calls import Caller, Try, answers, unary, upload
from ._ends import await_end
from ._read import Page, ReadOptions, pages, read_of
from ._submit import MESSAGE_BYTES
from ._values import Span, from_unix_ms, new_id, to_ms
from .errors import Exhausted, Invalid
from .records import ParentOutput
from .spec import JobSpec, to_wire

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The most that a handler gets of its parents' outputs, in bytes.
_OUTPUTS_MOST = 64 << 20


@dataclass(frozen=True)
class Gate:
    """Makes a node a gate, which is not a job: it waits for a signal.

    ``timeout`` counts once its parents have completed; ``on_timeout`` is ``expire`` or
    ``complete``.
    """

    timeout: Span | None = None
    on_timeout: str = "expire"


@dataclass(frozen=True)
class Node:
    """A node of a workflow: a job that waits for its parents, or a gate.

    Attributes:
        run: how the parents must have ended: ``on_success``, ``on_failure`` or ``always``.
    """

    id: str
    job: JobSpec | None = None
    parents: Sequence[str] = ()
    gate: Gate | None = None
    run: str = ""

    def _wire(self) -> _v1.NodeSpec:
        w = _v1.NodeSpec(id=self.id, parents=self.parents, run=self.run)
        if self.job is not None:
            w.job.CopyFrom(to_wire(self.job))
        elif self.gate is None:
            raise Invalid(f"node {self.id!r} has neither a job nor a gate", subject="nodes")
        if self.gate is not None:
            w.gate.CopyFrom(
                _v1.Gate(timeout_ms=to_ms(self.gate.timeout), on_timeout=self.gate.on_timeout)
            )
        return w


@dataclass(frozen=True)
class WorkflowSubmitted:
    """The outcome of the submission of a workflow."""

    id: str
    state: str
    existed: bool
    nodes: int
    index: int


@dataclass(frozen=True)
class Workflow:
    """A workflow: RUNNING, COMPLETED, FAILED or CANCELLED; ``counts`` are nodes by state."""

    id: str
    state: str
    queue: str
    tenant: str
    labels: Mapping[str, str]
    node_count: int
    progress: int
    runs: int
    failed_node: str
    reason: str
    counts: Mapping[str, int]
    submitted: datetime | None
    finished: datetime | None
    nodes: tuple[WorkflowNode, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in ("COMPLETED", "FAILED", "CANCELLED")

    @classmethod
    def _of(cls, w: _v1.Workflow, nodes: tuple[WorkflowNode, ...] = ()) -> Workflow:
        c = w.counts
        counts = {
            "BLOCKED": c.blocked, "DELAYED": c.delayed, "QUEUED": c.queued,
            "ASSIGNED": c.assigned, "RUNNING": c.running, "COMPLETED": c.completed,
            "DEAD": c.dead, "EXPIRED": c.expired, "CANCELLED": c.cancelled,
            "SKIPPED": c.skipped, "WAITING": c.waiting,
        }  # fmt: skip
        return cls(
            w.id, w.state, w.queue, w.tenant, dict(w.labels), w.node_count, w.progress, w.runs,
            w.failed_node, w.reason, counts, from_unix_ms(w.submitted_ms),
            from_unix_ms(w.finished_ms), nodes,
        )  # fmt: skip


@dataclass(frozen=True)
class WorkflowNode:
    """A node in its present state; ``job`` is the id of its job."""

    id: str
    job: str
    type: str
    state: str
    parents: tuple[str, ...]
    worker: str
    attempt: int
    reason: str


class Workflows:
    """The calls for workflows: `Client.workflows`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def submit(
        self,
        nodes: Sequence[Node],
        *,
        id: str = "",  # noqa: A002 # as everywhere
        queue: str = "",
        tenant: str = "",
        on_failure: str = "",
        labels: Mapping[str, str] = {},  # never changed
    ) -> WorkflowSubmitted:
        """Submit a workflow, as a whole or not at all; the same id again is the same workflow.

        ``on_failure`` is ``fail_fast``, the default, or ``continue``.
        """
        minted = not id
        header = _v1.WorkflowHeader(
            id=id or new_id(), queue=queue, tenant=tenant, on_failure=on_failure, labels=labels
        )
        requests = list(_pieces(header, [n._wire() for n in nodes]))
        # All nodes go through the log: a large workflow may take longer.
        most = 5.0 + len(nodes) / 1000
        attempt: Try[_v1.WorkflowSubmitted] = lambda node, timeout: upload(  # noqa: E731
            node, _v1.WORKFLOWS_SUBMIT, requests, timeout
        )
        w = await self._caller.call("submit workflow", attempt, most=most)
        return WorkflowSubmitted(w.id, w.state, w.existed and not minted, w.nodes, w.index)

    async def get(self, workflow: str, **read: Unpack[ReadOptions]) -> Workflow:
        """Read a workflow, without its nodes."""
        request = _v1.GetWorkflowRequest(id=workflow, read=read_of(read))
        got = await self._caller.ask("show workflow", _v1.WORKFLOWS_GET, request)
        return Workflow._of(got.workflow)

    async def graph(self, workflow: str, **read: Unpack[ReadOptions]) -> Workflow:
        """Read a workflow with its nodes, in topological order."""
        request = _v1.GetWorkflowRequest(id=workflow, read=read_of(read))

        async def attempt(node: _nodes.Node, timeout: float | None) -> Workflow:
            head: _v1.Workflow | None = None
            rows: list[_v1.WorkflowNode] = []
            async for m in answers(node, _v1.WORKFLOWS_SHOW, request, timeout):
                head = head or m.workflow
                rows += m.nodes
            if head is None:
                raise Invalid("the node told no workflow", subject="id")
            nodes = tuple(
                WorkflowNode(
                    r.id, f"{workflow}/{r.id}", r.type, r.state,
                    tuple(rows[p].id for p in r.parents), r.worker, r.attempt, r.reason,
                )
                for r in rows
            )  # fmt: skip
            return Workflow._of(head, nodes)

        return await self._caller.call("show workflow", attempt, most=None)

    def list(
        self,
        *,
        state: str = "",
        queue: str = "",
        tenant: str = "",
        limit: int | None = None,
        **read: Unpack[ReadOptions],
    ) -> AsyncIterator[Workflow]:
        """List workflows by id, without their nodes."""

        async def ask(how: _v1.Read, most: int, cursor: str) -> Page[_v1.Workflow]:
            request = _v1.ListWorkflowsRequest(
                state=state, queue=queue, tenant=tenant, limit=most, cursor=cursor, read=how
            )
            got = await self._caller.ask("list workflows", _v1.WORKFLOWS_LIST, request)
            return got.workflows, got.next_cursor, got.at

        return pages(read, limit, ask, Workflow._of)

    async def wait(self, workflow: str, timeout: Span | None = None) -> Workflow:
        """Return a workflow once it is over."""
        request = _v1.WaitWorkflowRequest(id=workflow)

        async def look() -> Workflow | None:
            got = await self.get(workflow)
            return got if got.ended else None

        async def ask(node: _nodes.Node, seconds: float) -> Workflow:
            return Workflow._of(await unary(node, _v1.WORKFLOWS_WAIT, request, seconds))

        return await await_end(
            self._caller, "wait workflow", f"workflow {workflow}", ask, look, timeout
        )

    async def cancel(self, workflow: str) -> Workflow:
        """Cancel the parts of a workflow that have not ended."""
        request = _v1.CancelWorkflowRequest(id=workflow)
        return Workflow._of(
            await self._caller.ask("cancel workflow", _v1.WORKFLOWS_CANCEL, request)
        )

    async def retry(self, workflow: str, from_: str = "") -> Workflow:
        """Run the parts of a finished workflow that did not complete again, or from one node on."""
        runs = (await self.get(workflow)).runs
        request = _v1.RetryWorkflowRequest(id=workflow, runs=runs)
        setattr(request, "from", from_)
        return Workflow._of(await self._caller.ask("retry workflow", _v1.WORKFLOWS_RETRY, request))

    async def signal(
        self,
        workflow: str,
        node: str,
        payload: bytes = b"",
        *,
        id: str = "",  # noqa: A002 # as everywhere
        refuse: bool = False,
    ) -> bool:
        """Send a signal to a gate, which becomes its output; return whether it was sent before."""
        request = _v1.SignalWorkflowRequest(
            workflow=workflow, node=node, id=id or new_id(), payload=payload, refuse=refuse
        )
        got = await self._caller.ask("signal workflow", _v1.WORKFLOWS_SIGNAL, request)
        return got.existed

    async def parent_outputs(self, job: str) -> Sequence[ParentOutput]:
        """Return the outputs of the parents of a node's job, in the order of their numbers."""

        async def attempt(node: _nodes.Node, timeout: float | None) -> Sequence[ParentOutput]:
            request = _v1.ParentOutputsRequest(job=job)
            rows, size = [], 0
            async for m in answers(node, _v1.WORKFLOWS_PARENT_OUTPUTS, request, timeout):
                size += len(m.output)
                if size > _OUTPUTS_MOST:
                    raise Exhausted(
                        f"the parents of job {job} put out more than {_OUTPUTS_MOST} bytes",
                        subject="output",
                    )
                rows.append(ParentOutput(m.node, m.job, m.output, m.state or "COMPLETED"))
            return rows

        return await self._caller.call("read parents' outputs", attempt, most=None)


def _pieces(
    header: _v1.WorkflowHeader, nodes: Sequence[_v1.NodeSpec]
) -> Iterator[_v1.SubmitWorkflowRequest]:
    """Yield a workflow in messages that a node accepts; too many parents go as edges."""
    m = _v1.SubmitWorkflowRequest(workflow=header)
    size = m.ByteSize()
    for w in nodes:
        edges: list[_v1.Edge] = []
        if w.ByteSize() > MESSAGE_BYTES:
            for parent in w.parents:
                edge = _v1.Edge(to=w.id)
                setattr(edge, "from", parent)
                edges.append(edge)
            del w.parents[:]
        if w.ByteSize() > MESSAGE_BYTES:
            raise Invalid(
                f"node {w.id!r} takes {w.ByteSize()} bytes: at most {256 << 10} of payload are "
                "taken",
                subject="payload",
            )
        for part in (w, *edges):
            n = part.ByteSize() + 8
            if size + n > MESSAGE_BYTES:
                yield m
                m, size = _v1.SubmitWorkflowRequest(), 0
            size += n
            if isinstance(part, _v1.NodeSpec):
                m.nodes.append(part)
            elif isinstance(part, _v1.Edge):
                m.edges.append(part)
    yield m
