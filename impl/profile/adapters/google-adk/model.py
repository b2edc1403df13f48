"""The model: it reads the conversation, and asks for the first steps that have no answer yet."""

from collections.abc import AsyncGenerator

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types


class Steps(BaseLlm):
    run: str
    turns: list[list[str]]
    """The steps that are asked for together."""

    async def generate_content_async(
        self, request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in request.contents for part in content.parts or []]
        answered = {part.function_response.id for part in parts if part.function_response}
        calls = [part.function_call for part in parts if part.function_call]
        done = {call.args["step"] for call in calls if call.id in answered}
        for turn in self.turns:
            if todo := [step for step in turn if step not in done]:
                answer = [types.Part.from_function_call(name="step", args={"run": self.run, "step": s}) for s in todo]
                break
        else:
            answer = [types.Part.from_text(text="All done.")]
        yield LlmResponse(content=types.Content(role="model", parts=answer))
