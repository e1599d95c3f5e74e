"""Create an account that has only the rights of the policy in a page. Arguments: the store's URL and the page.

Prints the account's access key and its secret. Makes five calls: the store checks the rights of later ones.
"""

import re
import sys

import boto3

url, page = sys.argv[1:]
with open(page, encoding="utf-8") as f:
    policy = re.search(r"```json\n(.*?)```", f.read(), re.DOTALL).group(1)
settings = {
    "endpoint_url": url,
    "region_name": "us-east-1",
    "aws_access_key_id": "compat",
    "aws_secret_access_key": "compat-secret",
}
s3, iam = boto3.client("s3", **settings), boto3.client("iam", **settings)
for bucket in ["backups", "elsewhere"]:
    s3.create_bucket(Bucket=bucket)
iam.create_user(UserName="rota")
iam.put_user_policy(UserName="rota", PolicyName="backups", PolicyDocument=policy)
key = iam.create_access_key(UserName="rota")["AccessKey"]
print(key["AccessKeyId"], key["SecretAccessKey"])
