"""The limits of keys for the LiteLLM proxy: `custom_auth` of its configuration."""

import json
import os

from fastapi import Request
from litellm.proxy._types import UserAPIKeyAuth

LIMITS = json.loads(os.environ["LIMITS_LIMITS"])


async def user_api_key_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
    return UserAPIKeyAuth(
        api_key=api_key,
        max_parallel_requests=LIMITS["Concurrency"],
        rpm_limit=LIMITS["Rate"] * 60,
        tpm_limit=LIMITS["Units"],
    )
