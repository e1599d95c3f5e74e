"""Submits, works and completes a job by the client that openapi-python-client generated: URL QUEUE."""

import sys

from gen import Client
from gen.api.jobs import get_job, submit_job
from gen.api.workers import acquire_leases, complete_lease
from gen.models import Acquire, Job, JobSpec, LeaseCompletion, Problem, WorkerSpec

url, queue = sys.argv[1:]
client = Client(base_url=url, timeout=30)
secret = "0123456789abcdef"

submitted = submit_job.sync_detailed(queue, client=client, body=JobSpec(queue=queue, type_="t", payload="hello"))
assert submitted.status_code == 201, submitted
job = get_job.sync(queue, client=client)
assert isinstance(job, Job) and job.state == "QUEUED", job
worker = WorkerSpec(queues=[queue], slots=1)
lease = acquire_leases.sync(queue, client=client, body=Acquire(worker=worker, wait_ms=8000), rota_worker_secret=secret).leases[0]
done = complete_lease.sync_detailed(
    queue, lease.lease, client=client, rota_worker_secret=secret,
    body=LeaseCompletion(token=lease.token, job=queue, output="done"),
)
assert done.status_code == 200, done
none = get_job.sync(queue + "-none", client=client)
assert isinstance(none, Problem), none
print("problem", none.kind)
