"""Submits, works and completes a job by the Python client that openapi-generator generated: URL QUEUE."""

import sys

import openapi_client as api

url, queue = sys.argv[1:]
client = api.ApiClient(api.Configuration(host=url))
jobs, workers = api.JobsApi(client), api.WorkersApi(client)
secret = "0123456789abcdef"

submitted = jobs.submit_job_with_http_info(queue, api.JobSpec(queue=queue, type="t", payload="hello"))
assert submitted.status_code == 201, submitted
assert jobs.get_job(queue).state == "QUEUED"
worker = api.WorkerSpec(queues=[queue], slots=1)
lease = workers.acquire_leases(queue, api.Acquire(worker=worker, wait_ms=8000), secret).leases[0]
workers.complete_lease(queue, lease.lease, api.LeaseCompletion(token=lease.token, job=queue, output="done"), secret)
try:
    jobs.get_job(queue + "-none")
except api.ApiException as e:
    print("problem", e.data.kind)
