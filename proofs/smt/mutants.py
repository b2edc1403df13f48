"""Deliberate errors, in the table or in the world. Each must break exactly the steps and the properties named for it: a
proof that doesn't notice them proves nothing.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

# What each must break, by name: move → the properties and clauses that it does not keep.
EXPECTED = Path(__file__).with_name("mutants.json")


@dataclass
class Mutant:
    name: str
    kind: str
    breaks: dict                                   # move → the safety properties and clauses that it no longer keeps
    edit: Callable | None = None                   # of the table's rows
    drop: tuple = field(default=())                # assumptions about the world


def select(rows, what, phase, tool, **event):
    """The rows for these, whatever else they ask."""
    return [
        row for row in rows
        if what in row["event"]["what"] and phase in row["state"].get("phase", [])
        and tool in row["policy"].get("tool", [tool])
        and all(value in row["event"].get(key.replace("_", "-"), [value]) for key, value in event.items())
    ]


def does(row, action):
    return any(action in (a["do"], a.get("tell")) for a in row["then"].get("actions", []))


def without_condition(group, name, **where):
    """The rows that give a definite answer or send no longer ask for this condition."""
    def edit(rows):
        for row in select(rows, **where):
            if does(row, "dispatch") or does(row, "failed"):
                row[group].pop(name, None)
    return edit


def also_for(tool, like, **where):
    """A tool is treated as another kind is, where that kind sends or settles."""
    def edit(rows):
        for row in select(rows, tool=like, **where):
            if does(row, "dispatch") or does(row, "failed"):
                row["policy"]["tool"] = [tool]
    return edit


def also_in(phases, **where):
    """The same is done in other phases."""
    def edit(rows):
        for row in select(rows, **where):
            if "store" in row["then"]:
                row["state"] = {"phase": row["state"]["phase"] + list(phases)}
    return edit


def counts_too(dimension, value, **where):
    """What has consequences has them for another value too."""
    def edit(rows):
        for row in select(rows, **where):
            if "store" in row["then"] and dimension in row["event"]:
                row["event"][dimension] = row["event"][dimension] + [value]
    return edit


def sends_again_too(dimension, value):
    """What is sent again after `busy` is so for another value too."""
    def change(row):
        if does(row, "dispatch"):
            row["event"][dimension] = row["event"][dimension] + [value]
    return rewrite(change, what="reply", phase="dispatched", tool="opaque", reply="busy")


def rewrite(change, **where):
    def edit(rows):
        for row in select(rows, **where):
            change(row)
    return edit


def no_store(row):
    row["then"].pop("store", None)


def conclusive(row):
    for action in row["then"].get("actions", []):
        if action["do"] == "observe":
            action["conclusive"] = "yes"


def no_doubt(row):
    if does(row, "dispatch"):
        row["then"]["store"]["doubt"] = "no"


def all_mutants():
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    table = [
        ("unknown is sent again", "opaque", also_for("opaque", "idempotent", what="resume", phase="unknown")),
        ("any error means it did not happen", "opaque",
         without_condition("policy", "errors", what="reply", phase="dispatched", tool="opaque")),
        ("an error settles although copies may be under way", "opaque",
         without_condition("policy", "delivery", what="reply", phase="dispatched", tool="opaque")),
        ("an error settles a sealable operation without a seal", "sealable",
         also_for("sealable", "transactional", what="reply", phase="dispatched")),
        ("not applied counts whenever it was asked", "observable",
         without_condition("event", "conclusive", what="observed", phase="unknown", tool="observable", seen="not-applied")),
        ("an early question counts", "observable", rewrite(conclusive, what="resume", phase="unknown", tool="observable")),
        ("sent again without a seal", "sealable", also_for("sealable", "transactional", what="resume", phase="unknown")),
        ("a seal of an earlier attempt counts", "sealable",
         counts_too("of", "earlier", what="observed", phase="unknown", tool="sealable", seen="sealed-attempts")),
        ("sent without a record", "opaque", rewrite(no_store, what="call", phase="absent", tool="opaque", start="now")),
        ("answered without a record", "opaque",
         rewrite(no_store, what="reply", phase="dispatched", tool="opaque", reply="result")),
        ("a settled operation is settled again", "opaque",
         also_in(["settled"], what="reply", phase="dispatched", tool="opaque", reply="result")),
        ("cancelled after it was sent", "opaque", also_in(["dispatched"], what="cancel", phase="created", tool="opaque")),
        ("a person may say no at any time", "opaque",
         counts_too("all-quiet", "no", what="decide", phase="escalated", tool="opaque", decision="failed")),
        ("sent again after the limit", "deduplicates",
         without_condition("event", "within-limit", what="resume", phase="unknown", tool="deduplicates")),
        ("a second attempt leaves no doubt", "deduplicates",
         rewrite(no_doubt, what="resume", phase="unknown", tool="deduplicates")),
        ("a rejection is taken to be remembered", "deduplicates",
         also_for("deduplicates", "deduplicates-rejections", what="reply", phase="unknown")),
        ("busy is sent again although copies may be under way", "opaque",
         without_condition("policy", "delivery", what="reply", phase="dispatched", tool="opaque", reply="busy")),
        ("busy is sent again although an earlier attempt may apply", "deduplicates",
         without_condition("state", "doubt", what="reply", phase="dispatched", tool="deduplicates", reply="busy")),
        ("any error is taken for busy", "opaque", sends_again_too("reply", "unproven")),
        ("busy of an earlier attempt is sent again", "opaque", sends_again_too("of", "earlier")),
        ("an earlier attempt's error settles", "deduplicates",
         counts_too("of", "earlier", what="reply", phase="dispatched", tool="deduplicates", reply="not-run")),
        ("a commit does not look at the record", "transactional",
         also_in(["confirmed", "settled"], what="committed", phase="dispatched", tool="transactional")),
        ("a commit of an earlier attempt counts", "transactional",
         counts_too("of", "earlier", what="committed", phase="dispatched", tool="transactional")),
    ]
    world = [
        ("news names its attempt", "sealable"), ("replies come from the tool", "opaque"),
        ("an applied answer is true", "opaque"), ("a person's success is true", "opaque"),
        ("a person's failure is true and all is quiet", "opaque"), ("one dispatch is one delivery", "opaque"),
        ("a send waits for its record", "sealable"), ("a seal's answer is true", "sealable"),
        ("sender done is true", "observable"), ("the settling time is enough", "observable"),
        ("a not-applied answer was true when given", "observable"),
        ("within the limit it is remembered", "deduplicates"), ("no copy arrives after the limit", "deduplicates"),
    ]
    return [Mutant(name, kind, expected.get(name, {}), edit=edit) for name, kind, edit in table] + [
        Mutant(f"not assumed: {name}", kind, expected.get(f"not assumed: {name}", {}), drop=(name,)) for name, kind in world]
