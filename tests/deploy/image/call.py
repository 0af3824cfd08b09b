"""One HTTP call, in whichever network this process is: ``call.py METHOD URL KEY``, JSON on stdin; prints [status, body]."""

import json
import sys
import urllib.request
from urllib.error import HTTPError

method, url, key = sys.argv[1:]
request = urllib.request.Request(url, sys.stdin.buffer.read() if method == "POST" else None, method=method)
request.add_header("content-type", "application/json")
if key:
    request.add_header("authorization", f"Bearer {key}")
try:
    with urllib.request.urlopen(request, timeout=50) as answer:
        print(json.dumps([answer.status, json.load(answer)]))
except HTTPError as error:
    print(json.dumps([error.code, json.load(error)]))
