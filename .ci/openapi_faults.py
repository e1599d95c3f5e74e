"""Stands before a node and answers three calls wrongly, for .ci/openapi --bite.

openapi_faults.py PORT NODE: listens on PORT of loopback and passes everything else on to the port NODE.
"""

import http.client
import http.server
import json
import sys
import urllib.parse

PORT, NODE = int(sys.argv[1]), int(sys.argv[2])
QUEUE = "/v1/queues/default"


def problem(status):
    said = {"type": "urn:rota:error:INTERNAL", "title": "planted", "status": status, "detail": "planted", "kind": "INTERNAL"}
    return status, "application/problem+json", json.dumps(said).encode()


class Faults(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name):  # whatever the method is
        if name.startswith("do_"):
            return self.passed
        raise AttributeError(name)

    def log_message(self, *_):
        pass

    def passed(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "accept-encoding", "connection")}
        node = http.client.HTTPConnection("127.0.0.1", NODE, timeout=60)
        node.request(self.command, self.path, body or None, headers | {"Host": f"127.0.0.1:{NODE}"})
        answer = node.getresponse()
        status, kind, said = answer.status, answer.getheader("Content-Type"), answer.read()
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in ("content-length", "content-type", "transfer-encoding", "connection")]
        node.close()
        url = urllib.parse.urlsplit(self.path)
        if self.command == "GET" and status == 200:
            if url.path == QUEUE + "/lanes" and "oldest" in urllib.parse.parse_qs(url.query).get("order", []):
                status, kind, said = problem(500)
            elif url.path == QUEUE:
                said = json.dumps(json.loads(said) | {"name": 7}).encode()
            elif url.path == "/v1/tenants/default":
                status, kind, said = problem(418)
        self.send_response(status)
        for name, value in kept + [("Content-Length", str(len(said)))] + ([("Content-Type", kind)] if kind else []):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


Server(("127.0.0.1", PORT), Faults).serve_forever()
