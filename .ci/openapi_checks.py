"""What .ci/openapi asks beside the checks of schemathesis (docs/adr/0068).

Every call has a default answer, the problem, so schemathesis takes any status for described. A refusal must have one of
the statuses that docs/reference/errors.md lists.
"""

from urllib.parse import quote

import schemathesis

# A request whose head has more than 16 KiB and a little is answered 431 by net/http itself, which reads no more and closes
# the connection: whoever sends a body or waits for the end of the answer sees a reset. 512 characters of an id may be
# 6 KiB of an address; what is too long is asked for up to here.
ADDRESS = 14 << 10

REFUSALS = {400, 401, 403, 404, 405, 409, 410, 412, 413, 414, 415, 421, 429}


@schemathesis.check
def refusal_is_listed(ctx, response, case):
    described = case.operation.definition.raw["responses"]
    status = response.status_code
    # Those from 500 on are for not_a_server_error.
    assert status >= 500 or str(status) in described or status in REFUSALS, f"Undocumented status {status}"


@schemathesis.hook
def filter_case(ctx, case):
    texts = [*(case.path_parameters or {}).values(), *(case.query or {}).values()]
    return sum(len(quote(str(text))) for text in texts) <= ADDRESS
