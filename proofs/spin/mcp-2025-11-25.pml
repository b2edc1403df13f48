/* A caller and a tool, without a guard and without keys: the protocol model/checker/protocols/mcp-2025-11-25.toml. A request
 * that is not answered in time is sent again; the tool can't tell.
 *
 * Every step is one transition and every world is one state, so that Spin stores as many states as our own checker finds
 * without reductions. The protocol is not safe. Violations are reported and the search goes on, so that they are counted:
 *     spin -a mcp-2025-11-25.pml && cc -O2 -DSAFETY -DNOREDUCE pan.c -o pan && ./pan -c0 -m100000
 */
#ifndef CALLS
#define CALLS 2               /* how often the call may be made in all: 1 to 3 */
#endif
#define SLOTS 8               /* messages on their way at once: too few fails an assertion */

/* How often each fault may happen. */
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef TOOL_CRASHES_BEFORE
#define TOOL_CRASHES_BEFORE 0
#endif
#ifndef TOOL_CRASHES_AFTER
#define TOOL_CRASHES_AFTER 0
#endif
#ifndef ERRORS_BEFORE
#define ERRORS_BEFORE 0
#endif
#ifndef ERRORS_AFTER
#define ERRORS_AFTER 0
#endif
#ifndef REJECTIONS
#define REJECTIONS 0
#endif
#ifndef LOST_REQUESTS
#define LOST_REQUESTS 0
#endif
#ifndef LOST_REPLIES
#define LOST_REPLIES 1
#endif
#ifndef DUPLICATES
#define DUPLICATES 0
#endif
#ifndef RERUNS
#define RERUNS 0
#endif

unsigned timeouts : 3 = TIMEOUTS;
unsigned tool_crashes_before : 3 = TOOL_CRASHES_BEFORE;
unsigned tool_crashes_after : 3 = TOOL_CRASHES_AFTER;
unsigned errors_before : 3 = ERRORS_BEFORE;
unsigned errors_after : 3 = ERRORS_AFTER;
unsigned rejections : 3 = REJECTIONS;
unsigned lost_requests : 3 = LOST_REQUESTS;
unsigned lost_replies : 3 = LOST_REPLIES;
unsigned duplicates : 3 = DUPLICATES;
unsigned reruns : 3 = RERUNS;

/* The caller. Its attempt is the number of its calls. */
#define IDLE 0
#define WAITING 1
#define CONNECTION_LOST 2              /* what it was told: that, */
#define TOLD_FAILED 8
#define TOLD_DONE(n) (8 + (n))         /* where n names an effect */
unsigned calls : 3;
unsigned mint : 3;                     /* how often it began anew after a failure */
unsigned phase : 4;

/* The tool. */
byte effects;

/* Messages on their way: numbers in falling order, then zeros, so that equal sets are equal states. */
#define REQUEST 1
#define LOST 2                         /* a reply: the connection ended, */
#define NOT_RUN 3                      /* an error that proves that the tool did not run, */
#define UNPROVEN 4                     /* an error that proves nothing, */
#define RESULT 5                       /* a result */
#define MESSAGE(kind, a, n) ((kind) * 32 + (a) * 8 + (n))
#define KIND(m) ((m) / 32)
#define ATTEMPT(m) (((m) / 8) % 4)
#define EFFECT(m) ((m) % 8)
byte net[SLOTS];

/* What the properties need to know of the past. */
byte remembered;                       /* the first effect */
byte first_told;                       /* the first definite answer */
byte told_failed;                      /* attempts of which the caller was told that they failed, as bits */
byte applied;                          /* attempts that took effect, as bits */
bit phantom;
bit unfaithful;

/* Scratch: written before it is read within each step, and no part of the state. Spin does not restore what is hidden when
 * it backtracks out of a d_step, so `pick`, which outlives one, is never written inside any. */
hidden byte a, n, i, j, m, x, live, pick;

inline put(message) {
	x = message;
	assert(net[SLOTS - 1] == 0);
	j = SLOTS - 1;
	do
	:: j > 0 && net[j - 1] < x -> net[j] = net[j - 1]; j--
	:: else -> break
	od;
	net[j] = x
}

inline arrive(slot) {
	m = net[slot];
	a = ATTEMPT(m);
	j = slot;
	do
	:: j < SLOTS - 1 && net[j] != 0 -> net[j] = net[j + 1]; j++
	:: else -> break
	od;
	net[SLOTS - 1] = 0
}

inline carry_out() {
	effects++;
	remembered = (remembered == 0 -> effects : remembered);
	applied = applied | (1 << a)
}

inline tell(what) {
	phase = what;
	if
	:: what != CONNECTION_LOST ->
		first_told = (first_told == 0 -> what : first_told);
		unfaithful = unfaithful || first_told != what;
		if
		:: what == TOLD_FAILED -> told_failed = told_failed | (1 << calls)
		:: else -> phantom = phantom || what - TOLD_DONE(0) > effects
		fi
	:: else
	fi
}

/* The caller gets answer m, if it still waits for the answer of that attempt. */
inline receive() {
	if
	:: phase == WAITING && a == calls ->
		n = (KIND(m) == RESULT -> TOLD_DONE(EFFECT(m)) : (KIND(m) == LOST -> CONNECTION_LOST : TOLD_FAILED));
		tell(n)
	:: else
	fi
}

/* Violated properties, each reported once. Hidden in a d_step, so never taken back. */
hidden byte violated_at_most_once, violated_no_phantom_success, violated_faithful_replay, violated_no_false_failure;
hidden byte violated_unknown_blocks;
#define claim(holds, name) \
	if \
	:: !(holds) && !violated_##name -> violated_##name = 1; assert(!violated_##name) \
	:: else \
	fi

/* Answers to attempts that the caller doesn't wait for can't matter any more. */
inline forget() {
	j = 0; i = 0;
	do
	:: i < SLOTS && net[i] != 0 ->
		m = net[i];
		net[i] = 0;
		if
		:: KIND(m) == REQUEST || (phase == WAITING && ATTEMPT(m) == calls) -> net[j] = m; j++
		:: else
		fi;
		i++
	:: else -> break
	od;
	skip
}

/* The properties. Those whose violation is an event are kept in a flag. (`intent first` is not asserted: without a guard
 * there is no record, so it would fail at every effect.) */
inline check() {
	claim(effects <= 1, at_most_once);
	claim(!phantom, no_phantom_success);
	claim(!unfaithful, faithful_replay);
	claim((told_failed & applied) == 0, no_false_failure);
	live = applied;                                         /* at most one attempt took effect or still can */
	j = 0;
	do
	:: j < SLOTS && net[j] != 0 ->
		live = (KIND(net[j]) == REQUEST -> live | (1 << ATTEMPT(net[j])) : live);
		j++
	:: else -> break
	od;
	claim(live == 0 || (live & (live - 1)) == 0, unknown_blocks)
}

#define ANSWERS(i) (net[i] != 0 && ATTEMPT(net[i]) == calls)
#define ANSWERABLE (ANSWERS(0) || ANSWERS(1) || ANSWERS(2) || ANSWERS(3) || ANSWERS(4) || ANSWERS(5) || ANSWERS(6) || ANSWERS(7))
#define CALL(when, spent) \
	:: d_step { (when) && calls < CALLS -> spent; calls++; phase = WAITING; put(MESSAGE(REQUEST, calls, 0)) }

/* Slot i holds a message that differs from the one before, so that two equal ones are not two possibilities. */
#define DIFFERS(i) :: net[i] != 0 && net[i] != net[i - 1] -> pick = i
#define REQUESTED(when, what) \
	:: d_step { KIND(net[pick]) == REQUEST && (when) -> arrive(pick); what }

active proctype world() {
	do
	:: atomic {
		if
		:: net[0] != 0 ->
			if
			:: pick = 0
			DIFFERS(1) DIFFERS(2) DIFFERS(3) DIFFERS(4) DIFFERS(5) DIFFERS(6) DIFFERS(7)
			fi;
			if
			REQUESTED(true, carry_out(); put(MESSAGE(RESULT, a, effects)))
			REQUESTED(tool_crashes_before > 0, tool_crashes_before--; put(MESSAGE(LOST, a, 0)))
			REQUESTED(tool_crashes_after > 0, tool_crashes_after--; carry_out(); put(MESSAGE(LOST, a, 0)))
			REQUESTED(errors_before > 0, errors_before--; put(MESSAGE(UNPROVEN, a, 0)))
			REQUESTED(errors_after > 0, errors_after--; carry_out(); put(MESSAGE(UNPROVEN, a, 0)))
			REQUESTED(rejections > 0, rejections--; put(MESSAGE(NOT_RUN, a, 0)))
			REQUESTED(lost_requests > 0, lost_requests--)
			REQUESTED(duplicates > 0, duplicates--; put(m); put(m))
			:: d_step { KIND(net[pick]) >= LOST -> arrive(pick); receive() }
			:: d_step { KIND(net[pick]) >= LOST && lost_replies > 0 -> lost_replies--; arrive(pick) }
			fi
		CALL(phase == IDLE, skip)
		/* Impatience while an answer of the last attempt may still come is a fault with a bound. */
		CALL(phase == WAITING && !ANSWERABLE, skip)
		CALL(phase == WAITING && ANSWERABLE && timeouts > 0, timeouts--)
		CALL(phase == CONNECTION_LOST, skip)
		CALL(phase == TOLD_FAILED, mint++)
		CALL(phase > TOLD_FAILED && reruns > 0, reruns--)
		:: timeout -> skip
		fi;
		d_step { forget(); check() }
	}
	od
}
