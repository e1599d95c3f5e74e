"""Submits and reads a job by grpcio: ADDRESS QUEUE COMPRESSION."""

import sys

import grpc
from rota import _v1 as v1

address, queue, name = sys.argv[1:]
compression = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}[name]
with grpc.insecure_channel(address, compression=compression) as channel:

    def call(method, request):
        at = channel.unary_unary(method.path, type(request).SerializeToString, method.response.FromString)
        return at(request, timeout=10)

    job = v1.JobSpec(id="g-" + queue, queue=queue, type="t", payload=b"x" * 2000)
    try:
        submitted = call(v1.JOBS_SUBMIT, v1.SubmitRequest(jobs=[job]))
        read = call(v1.JOBS_GET, v1.GetJobRequest(id=job.id))
    except grpc.RpcError as e:
        sys.exit(f"{e.code().name}: {e.details()}")
    assert submitted.jobs[0].id == job.id, submitted
    assert len(read.ListFields()) > 0, read
