"""The workloads as flows. `feedback` of a person comes by a provider that doesn't wait for it."""

from crewai.flow import Flow, human_feedback, listen, start
from crewai.flow.async_feedback import HumanFeedbackPending, HumanFeedbackProvider
from settled_kit import call


class Later(HumanFeedbackProvider):
    def request_feedback(self, context, flow):
        raise HumanFeedbackPending(context=context)


class Steps(Flow):
    @start()
    def a(self):
        call("a")

    @listen(a)
    def b(self):
        call("b")

    @listen(b)
    def c(self):
        call("c")


class Approval(Flow):
    @start()
    def a(self):
        call("a")

    @listen(a)
    @human_feedback(message="b?", provider=Later())
    def review(self):
        return "b"

    @listen(review)
    def b(self, review):
        if review.feedback == "approve":
            call("b")


class Parallel(Flow):
    @start()
    def a(self):
        call("a")

    @listen(a)
    def b(self):
        call("b")

    @listen(a)
    @human_feedback(message="c?", provider=Later())
    def review(self):
        return "c"

    @listen(review)
    def c(self, review):
        if review.feedback == "approve":
            call("c")
