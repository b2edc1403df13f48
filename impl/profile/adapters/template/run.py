"""The adapter: drives the framework as its documentation says, and no better."""

import os

from journal import Journal, Unknown, Waiting
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WITH_INPUT, WORKLOAD, call, main

journal = Journal(STATE, RUN, synced=os.environ["JOURNAL"] == "synced")


def go_on() -> int:
    try:
        journal.step("a", call)
        if WORKLOAD == "steps":
            journal.step("b", call)
            journal.step("c", call)
        elif WORKLOAD == "approval":
            if journal.approval("b", ANSWER):
                journal.step("b", call)
        else:
            journal.step("b", call)
            if journal.approval("c", ANSWER):
                journal.step("c", call)
    except Waiting:
        journal.save()
        return WAITS
    journal.save()
    return OVER


def start() -> int:
    journal.begin()
    return go_on()


def resume() -> int:
    if WITH_INPUT:
        return start()
    try:
        journal.load()
    except Unknown:
        return UNKNOWN
    return go_on()


main(start, resume)
