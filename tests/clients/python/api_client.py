"""Clients of HTTP APIs on httpx and openai: `python api_client.py`.

Reads jobs from its input, a JSON object on each line, carries out up to 16 of them at a time, and writes a line for each:

    {"id", "client": "httpx"|"openai", "operation", "url", "key", "headers", "attempts", "timeout_ms",
     "pause_ms", "ends_when_unknown"}
    {"id", "attempts": [{"status", "whole", "text", "error", "problem", "replayed"}]}

`operation` is charges, chat, responses or messages, with `-stream` for an answer in events. `attempts` is how often the caller
itself tries until an answer is whole, or, with `ends_when_unknown`, a 502; what a library repeats by itself comes on top.
`whole`: the client took the answer for whole. httpx repeats nothing but failed connections (`retries=2`); openai has its default, max_retries=2.
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import httpx
import openai

PATHS = {
    "charges": "/v1/charges",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
printing = threading.Lock()


def asked(operation, streamed):
    says = [{"role": "user", "content": "charge me"}]
    body = {
        "charges": {"amount": 500},
        "chat": {"model": "fake-1", "messages": says},
        "responses": {"model": "fake-1", "input": "charge me"},
        "messages": {"model": "fake-1", "max_tokens": 99, "messages": says},
    }[operation]
    return body | ({"stream": True} if streamed else {})


def text_of(operation, answer):
    """What a whole answer says."""
    if operation == "charges":
        return answer["description"]
    if operation == "chat":
        return answer["choices"][0]["message"]["content"]
    if operation == "responses":
        return answer["output"][0]["content"][0]["text"]
    return answer["content"][0]["text"]


def delta_of(operation, event):
    """What an event of a stream adds."""
    if operation == "chat":
        choices = event["choices"]
        return choices[0]["delta"].get("content") or "" if choices else ""
    if operation == "responses":
        return event["delta"] if event["type"] == "response.output_text.delta" else ""
    return event["delta"]["text"] if event["type"] == "content_block_delta" else ""


def problem_of(response):
    try:
        return response.json().get("type")
    except Exception:
        return None


@lru_cache
def plain_client(url):
    transport = httpx.HTTPTransport(retries=2, limits=httpx.Limits(max_connections=None))
    return httpx.Client(base_url=url, transport=transport)


def by_httpx(job, operation, streamed, seen):
    headers = dict(job["headers"])
    if job["key"] is not None:
        headers["idempotency-key"] = f'"{job["key"]}"'
    timeout = job["timeout_ms"] / 1000
    client = plain_client(job["url"])
    body = asked(operation, streamed)
    with client.stream("POST", PATHS[operation], json=body, headers=headers, timeout=timeout) as answer:
        seen["status"] = answer.status_code
        seen["replayed"] = answer.headers.get("idempotency-replayed") == "true"
        if answer.status_code != 200:
            answer.read()
            seen["problem"] = problem_of(answer)
            answer.raise_for_status()
        if not streamed:
            answer.read()
            seen["text"] = text_of(operation, answer.json())
            return
        for line in answer.iter_lines():
            if line.startswith("data:") and line != "data: [DONE]":
                seen["text"] += delta_of(operation, json.loads(line[5:]))


@lru_cache
def openai_client(url):
    return openai.OpenAI(api_key="sk-test", base_url=f"{url}/v1")


def by_openai(job, operation, streamed, seen):
    client = openai_client(job["url"]).with_options(timeout=job["timeout_ms"] / 1000)
    api = (client.chat.completions if operation == "chat" else client.responses).with_raw_response
    headers = dict(job["headers"])
    if job["key"] is not None:
        headers["Idempotency-Key"] = f'"{job["key"]}"'
    try:
        answer = api.create(**asked(operation, streamed), extra_headers=headers)
    except openai.APIStatusError as error:
        seen["status"] = error.status_code
        seen["problem"] = problem_of(error.response)
        seen["replayed"] = error.response.headers.get("idempotency-replayed") == "true"
        raise
    seen["status"] = answer.status_code
    seen["replayed"] = answer.headers.get("idempotency-replayed") == "true"
    if not streamed:
        seen["text"] = text_of(operation, answer.parse().to_dict())
        return
    for event in answer.parse():
        seen["text"] += delta_of(operation, event.to_dict())


def attempt(job):
    operation, _, streamed = job["operation"].partition("-")
    seen = {"status": None, "whole": False, "text": "", "error": None, "problem": None, "replayed": False}
    try:
        {"httpx": by_httpx, "openai": by_openai}[job["client"]](job, operation, bool(streamed), seen)
        seen["whole"] = True
    except Exception as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    return seen


def carry_out(job):
    attempts = []
    while len(attempts) < job["attempts"]:
        if attempts:
            time.sleep(job["pause_ms"] / 1000)
        last = attempt(job)
        attempts.append(last)
        if last["whole"] or (job["ends_when_unknown"] and last["status"] == 502):
            break
    with printing:
        print(json.dumps({"id": job["id"], "attempts": attempts}), flush=True)


def main():
    with ThreadPoolExecutor(16) as pool:
        for line in sys.stdin:
            pool.submit(carry_out, json.loads(line))


main()
