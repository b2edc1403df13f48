"""The model: it reads the conversation, and asks for the first steps that have no answer yet."""

import json
from collections.abc import AsyncIterator
from uuid import uuid4

from agents import Model, ModelResponse, Usage
from agents.testing import assistant_message, function_call


class Steps(Model):
    def __init__(self, run: str, turns: list[list[str]]):
        """`turns`: the steps that are asked for together."""
        self.run, self.turns = run, turns

    async def get_response(self, system_instructions, input, *_, **__) -> ModelResponse:
        items = input if isinstance(input, list) else []
        answered = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
        calls = [item for item in items if item.get("type") == "function_call"]
        done = {json.loads(call["arguments"])["step"] for call in calls if call["call_id"] in answered}
        for turn in self.turns:
            if todo := [step for step in turn if step not in done]:
                output = [self.call(step) for step in todo]
                break
        else:
            output = [assistant_message("All done.")]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def call(self, step: str):
        return function_call("step", {"run": self.run, "step": step}, call_id=f"call_{uuid4().hex}")

    def stream_response(self, *_, **__) -> AsyncIterator:
        raise NotImplementedError
