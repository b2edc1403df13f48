/* A guard in front of a tool that can be sealed: the protocol model/checker/protocols/settled-sealable.toml, written a
 * second time, from the design's rules and not from the core's code. One logical call, GUARDS guard processes, one ledger.
 *
 * Every step is one transition and every world is one state, so that Spin stores as many states as our own checker finds
 * without reductions. What is said of each property at "The properties" is checked after every transition, with
 *     spin -a settled-sealable.pml && cc -O2 -DSAFETY -DNOREDUCE pan.c -o pan && ./pan -c0 -m100000
 * That every operation ends once faults stop takes two more things: that it can't come to rest before that, and that nothing goes
 * round for ever (so no fairness is needed: every run ends at rest):
 *     spin -a -DFAULTS_STOP settled-sealable.pml && cc -O2 -DSAFETY -DNOREDUCE pan.c -o pan && ./pan -c0 -m100000
 *     spin -a -DROUNDS settled-sealable.pml && cc -O2 -DNP -DNOREDUCE pan.c -o pan && ./pan -l -E -m100000
 */
#ifndef CALLS
#define CALLS 2               /* how often the call may be made in all; each new key takes one, so there are CALLS keys */
#endif
#ifndef GUARDS
#define GUARDS 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2            /* of one operation */
#endif
#ifndef SLOTS
#define SLOTS 8               /* messages on their way at once: too few fails an assertion */
#endif

/* How often each fault may happen. */
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef GUARD_CRASHES
#define GUARD_CRASHES 1
#endif
#ifndef TAKEOVERS
#define TAKEOVERS 1
#endif
#ifndef TOOL_CRASHES_BEFORE
#define TOOL_CRASHES_BEFORE 0
#endif
#ifndef TOOL_CRASHES_AFTER
#define TOOL_CRASHES_AFTER 1
#endif
#ifndef ERRORS_BEFORE
#define ERRORS_BEFORE 0
#endif
#ifndef ERRORS_AFTER
#define ERRORS_AFTER 0
#endif
#ifndef REJECTIONS
#define REJECTIONS 1
#endif
#ifndef LOST_REQUESTS
#define LOST_REQUESTS 0
#endif
#ifndef LOST_REPLIES
#define LOST_REPLIES 0
#endif
#ifndef DUPLICATES
#define DUPLICATES 1
#endif
#ifndef REORDERINGS
#define REORDERINGS 1
#endif
#ifndef CONCURRENT_CALLS
#define CONCURRENT_CALLS 1
#endif
#ifndef RERUNS
#define RERUNS 0
#endif

unsigned timeouts : 3 = TIMEOUTS;
unsigned guard_crashes : 3 = GUARD_CRASHES;
unsigned takeovers : 3 = TAKEOVERS;
unsigned tool_crashes_before : 3 = TOOL_CRASHES_BEFORE;
unsigned tool_crashes_after : 3 = TOOL_CRASHES_AFTER;
unsigned errors_before : 3 = ERRORS_BEFORE;
unsigned errors_after : 3 = ERRORS_AFTER;
unsigned rejections : 3 = REJECTIONS;
unsigned lost_requests : 3 = LOST_REQUESTS;
unsigned lost_replies : 3 = LOST_REPLIES;
unsigned duplicates : 3 = DUPLICATES;
unsigned reorderings : 3 = REORDERINGS;
unsigned concurrent_calls : 3 = CONCURRENT_CALLS;
unsigned reruns : 3 = RERUNS;

/* The caller. */
#define IDLE 0
#define WAITING(g) (1 + (g))
#define TOLD_FAILED 8
#define TOLD_DONE(n) (8 + (n))         /* n names an effect */
unsigned calls : 3;
unsigned mint : 3;                     /* which of its keys it uses */
unsigned phase : 4;

/* A guard's memory: whether the call has arrived and was not looked at yet, whether the caller waits here, and what it has
 * yet to do for each key after a durable write. */
#define NOTHING 0
#define SEND(a) (a)
#define ANSWER_FAILED(error) (8 + (error))
#define ANSWER_DONE(n) (9 + (n))
bit arrived[GUARDS];
bit waits[GUARDS];
byte todo[GUARDS * CALLS];
#define TODO(g, k) todo[(g) * CALLS + (k)]

/* The ledger, by key. While an operation is dispatched it has an owner: guard g owns as g + 1, DEAD owns what a crashed
 * process owned. */
#define NONE 0
#define DISPATCHED 1
#define UNKNOWN 2
#define SETTLED 3                      /* and above: by verdict */
#define FAILED(error) (3 + (error))
#define DONE(n) (4 + (n))
#define SILENCE 0                      /* causes of an unknown: no answer, for whatever reason, */
#define ERROR 1                        /* an error that can follow an effect, */
#define REFUSED 2                      /* an error that says that this copy had none */
#define DEAD 0
byte record[CALLS];
byte cause[CALLS];
byte attempt[CALLS];
byte owner[CALLS];

/* The tool, by key: the effect it remembers, the attempts that are sealed (ALL: the operation). */
#define ALL 7
byte remembered[CALLS];
byte sealed[CALLS];
byte effects;

/* Messages on their way, then zeros. What goes to the tool is a lane for each key and each process that is alive, and keeps
 * its order; all else is sorted. Lanes are sorted too, so that equal networks are equal states. */
#define REQUEST 1
#define LOST 2                         /* a reply: the connection ended, */
#define NOT_RUN 3                      /* an error that proves that the tool did not run, */
#define UNPROVEN 4                     /* an error that proves nothing, */
#define RESULT 5                       /* a result */
#define SEAL_ATTEMPTS 6                /* a question */
#define SEAL_OPERATION 7
#define APPLIED 8                      /* its answer */
#define SEALED_ATTEMPTS 9
#define SEALED_OPERATION 10
#define MESSAGE(kind, g, k, a, n) ((kind) * 256 + (g) * 64 + (k) * 16 + (a) * 4 + (n))
#define KIND(m) ((m) / 256)
#define WHO(m) (((m) / 64) % 4)
#define KEY(m) (((m) / 16) % 4)
#define ATTEMPT(m) (((m) / 4) % 4)
#define EFFECT(m) ((m) % 4)
#define IS_REPLY(m) (KIND(m) >= LOST && KIND(m) <= RESULT)
#define IS_QUESTION(m) (KIND(m) == SEAL_ATTEMPTS || KIND(m) == SEAL_OPERATION)
#define IS_SEEN(m) (KIND(m) >= APPLIED)
#define IN_ORDER(m) ((KIND(m) == REQUEST || IS_QUESTION(m)) && WHO(m) != DEAD)
#define LANE(m) (IN_ORDER(m) -> KEY(m) * 4 + WHO(m) : 64 + (m))
short net[SLOTS];

/* What the properties need to know of the past. */
byte first_told[CALLS];                /* the first definite answer of each key */
bit told_failed[CALLS];
byte applied[CALLS];                   /* attempts that took effect, as bits */
bit phantom;
bit unfaithful;

/* Scratch: written before it is read within each step, and no part of the state. Spin does not restore what is hidden when
 * it backtracks out of a d_step, so `pick`, which outlives one, is never written inside any. */
hidden byte g, k, a, n, e, i, j, live, pick;
hidden short m, x;
hidden short old[SLOTS];

inline put(message) {
	x = message;
	assert(net[SLOTS - 1] == 0);
	j = SLOTS - 1;
	do
	:: j > 0 && (net[j - 1] == 0 || LANE(net[j - 1]) > LANE(x)) -> net[j] = net[j - 1]; j--
	:: else -> break
	od;
	net[j] = x
}

/* Takes the first message that is equal to that one. */
inline remove(slot) {
	j = 0;
	do
	:: net[j] != net[slot] -> j++
	:: else -> break
	od;
	do
	:: j < SLOTS - 1 && net[j] != 0 -> net[j] = net[j + 1]; j++
	:: else -> break
	od;
	net[SLOTS - 1] = 0
}

/* Whether message m can't matter any more: the tool can't carry it out or seal by it, and news of its attempt comes too late,
 * since the operation has ended or has gone on to a later attempt. */
#define PAST(m) (record[KEY(m)] >= SETTLED || attempt[KEY(m)] > ATTEMPT(m))
#define CANNOT_APPLY(m) (remembered[KEY(m)] != 0 || ATTEMPT(m) <= sealed[KEY(m)])
#ifdef KEEPS_ALL
#define FUTILE(m) false                /* nothing is dropped: the same verdicts, more states */
#else
#define FUTILE(m) (KIND(m) == REQUEST -> CANNOT_APPLY(m) && (WHO(m) == DEAD || PAST(m)) : \
	(KIND(m) == SEAL_ATTEMPTS -> CANNOT_APPLY(m) && PAST(m) : \
	(KIND(m) == SEAL_OPERATION -> (remembered[KEY(m)] != 0 || sealed[KEY(m)] == ALL) && PAST(m) : PAST(m))))
#endif
inline forget() {
	j = 0; i = 0;
	do
	:: i < SLOTS && net[i] != 0 ->
		m = net[i];
		net[i] = 0;
		if
		:: !FUTILE(m) -> net[j] = m; j++
		:: else
		fi;
		i++
	:: else -> break
	od;
	skip
}

/* A guard that is told to do something after a write has nothing else to do for that key. */
inline next(guard, key, what) {
	assert(TODO(guard, key) == NOTHING);
	TODO(guard, key) = what
}

inline settle(guard, key, verdict, answer) {
	record[key] = verdict;
	cause[key] = 0;
	owner[key] = 0;
	next(guard, key, answer)
}

inline unknown(key, why) {
	record[key] = UNKNOWN;
	owner[key] = 0;
	cause[key] = why
}

inline dispatch(guard, key, number) {
	record[key] = DISPATCHED;
	cause[key] = 0;
	attempt[key] = number;
	owner[key] = guard + 1;
	next(guard, key, SEND(number))
}

/* The caller is told by a guard, if it still waits there. */
inline tell(guard, key, what) {
	waits[guard] = 0;
	if
	:: phase == WAITING(guard) ->
		phase = what;
		if
		:: first_told[key] == 0 -> first_told[key] = what
		:: else -> unfaithful = unfaithful || first_told[key] != what
		fi;
		if
		:: what == TOLD_FAILED -> told_failed[key] = 1
		:: else -> phantom = phantom || (what - TOLD_DONE(0)) > effects
		fi
	:: else
	fi
}

/* The tool carries out request m: once for a key, and never what is sealed. The kind of its answer is left in e. */
inline carry_out() {
	if
	:: remembered[k] != 0 -> e = RESULT
	:: remembered[k] == 0 && sealed[k] >= a -> e = UNPROVEN
	:: else ->
		effects++;
		remembered[k] = effects;
		applied[k] = applied[k] | (1 << a);
		e = RESULT
	fi;
	n = (e == RESULT -> remembered[k] : 0)
}

inline arrive(slot) {
	m = net[slot];
	k = KEY(m);
	a = ATTEMPT(m);
	g = WHO(m);
	remove(slot)
}

/* A process that has died gets no answer. */
inline reply(kind, effect) {
	if
	:: g != DEAD -> put(MESSAGE(kind, g, k, a, effect))
	:: else
	fi
}

/* A guard gets the answer m of an attempt, or of a question. Only news of the latest attempt counts. */
inline receive() {
	g--;
	if
	:: a != attempt[k] || record[k] >= SETTLED
	:: else ->
		if
		:: KIND(m) == RESULT || (KIND(m) == APPLIED && record[k] == UNKNOWN) ->
			settle(g, k, DONE(EFFECT(m)), ANSWER_DONE(EFFECT(m)))
		:: KIND(m) == LOST && record[k] == DISPATCHED -> unknown(k, SILENCE)
		:: KIND(m) == UNPROVEN && record[k] == DISPATCHED -> unknown(k, ERROR)
		:: KIND(m) == NOT_RUN && record[k] == DISPATCHED -> unknown(k, REFUSED)
		:: KIND(m) == SEALED_ATTEMPTS && record[k] == UNKNOWN ->
			if
			:: a < ATTEMPTS -> dispatch(g, k, a + 1)
			:: else -> put(MESSAGE(SEAL_OPERATION, g + 1, k, a, 0))
			fi
		:: KIND(m) == SEALED_OPERATION && record[k] == UNKNOWN ->
			e = (cause[k] == ERROR || cause[k] == REFUSED);
			settle(g, k, FAILED(e), ANSWER_FAILED(e))
		:: else
		fi
	fi
}

/* The tool answers a question; a seal is never taken back. */
inline look() {
	if
	:: remembered[k] != 0 -> put(MESSAGE(APPLIED, g, k, a, remembered[k]))
	:: remembered[k] == 0 && KIND(m) == SEAL_OPERATION ->
		sealed[k] = ALL;
		put(MESSAGE(SEALED_OPERATION, g, k, a, 0))
	:: else ->
		sealed[k] = (sealed[k] > a -> sealed[k] : a);
		put(MESSAGE(SEALED_ATTEMPTS, g, k, a, 0))
	fi
}

/* A guard does what it has been told to do after a write. */
inline carry_on() {
	e = TODO(g, k);
	TODO(g, k) = NOTHING;
	if
	:: e < ANSWER_FAILED(0) ->
		assert(record[k] != NONE && attempt[k] >= e);       /* intent first: it is recorded what is sent */
		put(MESSAGE(REQUEST, g + 1, k, e, 0))
	:: e >= ANSWER_FAILED(0) && waits[g] && mint == k ->
		n = (e >= ANSWER_DONE(1) -> TOLD_DONE(e - ANSWER_DONE(0)) : TOLD_FAILED);
		tell(g, k, n)
	:: else
	fi
}

/* A guard takes up the caller's call, or looks again whether there is an answer for who waits; not while it is about to give one. */
inline take() {
	k = mint;
	arrived[g] = arrived[g] && waits[g];
	waits[g] = 1;
	if
	:: record[k] == NONE -> dispatch(g, k, 1)
	:: record[k] == DISPATCHED || record[k] == UNKNOWN
	:: else ->
		n = (record[k] >= DONE(1) -> TOLD_DONE(record[k] - DONE(0)) : TOLD_FAILED);
		tell(g, k, n)
	fi
}

/* A guard process is killed and started again: what it had in memory is gone, and so are the answers on their way to it. */
inline crash() {
	guard_crashes--;
	arrived[g] = 0;
	waits[g] = 0;
	i = 0;
	do
	:: i < CALLS ->
		TODO(g, i) = NOTHING;
		owner[i] = (owner[i] == g + 1 -> DEAD : owner[i]);
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < SLOTS -> old[i] = net[i]; net[i] = 0; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < SLOTS && old[i] != 0 ->
		if
		:: WHO(old[i]) != g + 1 -> put(old[i])
		:: WHO(old[i]) == g + 1 && KIND(old[i]) == REQUEST -> put(old[i] - (g + 1) * 64)
		:: else
		fi;
		i++
	:: else -> break
	od;
	skip
}

/* Violated properties, each reported once. Hidden in a d_step, so never taken back. */
hidden byte violated_at_most_once, violated_no_phantom_success, violated_faithful_replay, violated_no_false_failure;
hidden byte violated_unknown_blocks, violated_settles;
#define claim(holds, name) \
	if \
	:: !(holds) && !violated_##name -> violated_##name = 1; assert(!violated_##name) \
	:: else \
	fi

/* The properties. Those whose violation is an event are kept in a flag. */
inline check() {
	claim(effects <= 1, at_most_once);                      /* at most once: all keys are one logical call's */
	claim(!phantom, no_phantom_success);
	claim(!unfaithful, faithful_replay);
	i = 0;
	do
	:: i < CALLS ->
		claim(!told_failed[i] || applied[i] == 0, no_false_failure);
		live = applied[i];                                  /* at most one attempt took effect or still can */
		if
		:: remembered[i] == 0 ->
			j = 0;
			do
			:: j < SLOTS && net[j] != 0 ->
				if
				:: KIND(net[j]) == REQUEST && KEY(net[j]) == i && ATTEMPT(net[j]) > sealed[i] ->
					live = live | (1 << ATTEMPT(net[j]))
				:: else
				fi;
				j++
			:: else -> break
			od;
			j = 0;
			do
			:: j < GUARDS ->
				if
				:: TODO(j, i) < ANSWER_FAILED(0) && TODO(j, i) > sealed[i] -> live = live | (1 << TODO(j, i))
				:: else
				fi;
				j++
			:: else -> break
			od
		:: else
		fi;
		claim(live == 0 || (live & (live - 1)) == 0, unknown_blocks);
		i++
	:: else -> break
	od;
	skip
}

/* In any of the slots: whether a guard has a question about a key under way; whether an answer of the record's attempt may come. */
#define SOME(what, g, k) (what(0, g, k) || what(1, g, k) || what(2, g, k) || what(3, g, k) || \
	what(4, g, k) || what(5, g, k) || what(6, g, k) || what(7, g, k))
#define ASKS(i, g, k) (KIND(net[i]) >= SEAL_ATTEMPTS && WHO(net[i]) == (g) + 1 && KEY(net[i]) == (k))
#define ANSWERS(i, g, k) (net[i] != 0 && KIND(net[i]) <= RESULT && KEY(net[i]) == (k) && ATTEMPT(net[i]) == attempt[k])

/* What a guard may do about a key, and about the caller. */
#define IDLE_ABOUT(g, k) (TODO(g, k) == NOTHING)
#define OF_KEY(G, K) \
	:: d_step { TODO(G, K) != NOTHING -> g = G; k = K; carry_on() } \
	:: d_step { record[K] == DISPATCHED && owner[K] == G + 1 && IDLE_ABOUT(G, K) && \
			(timeouts > 0 || !SOME(ANSWERS, G, K)) -> \
		timeouts = timeouts - SOME(ANSWERS, G, K); unknown(K, SILENCE) } \
	:: d_step { record[K] == DISPATCHED && owner[K] != G + 1 && IDLE_ABOUT(G, K) && (owner[K] == DEAD || takeovers > 0) -> \
		takeovers = takeovers - (owner[K] != DEAD); unknown(K, SILENCE) } \
	:: d_step { record[K] == UNKNOWN && IDLE_ABOUT(G, K) && !SOME(ASKS, G, K) -> \
		e = (attempt[K] < ATTEMPTS && cause[K] != REFUSED -> SEAL_ATTEMPTS : SEAL_OPERATION); \
		put(MESSAGE(e, G + 1, K, attempt[K], 0)) }

#define HOLDS(G, K) (TODO(G, K) != NOTHING || (record[K] == DISPATCHED && owner[K] == G + 1) || SOME(ASKS, G, K))
/* Whether the guard that got the call still knows it: then calling again is a fault with a bound. */
#define SERVED (arrived[phase - WAITING(0)] || waits[phase - WAITING(0)])
#define CALL(G, when, spent) \
	:: d_step { (when) -> spent; calls++; phase = WAITING(G); arrived[G] = 1 }
#define OF_GUARD(G) \
	:: d_step { TODO(G, mint) < ANSWER_FAILED(0) && ((arrived[G] && !waits[G]) || (waits[G] && record[mint] >= SETTLED)) -> \
		g = G; take() } \
	:: d_step { guard_crashes > 0 && (arrived[G] || waits[G] || HOLDS(G, 0) || HOLDS_MORE(G)) -> g = G; crash() } \
	CALL(G, phase == IDLE, skip) \
	CALL(G, phase > IDLE && phase < TOLD_FAILED && calls < CALLS && !SERVED, skip) \
	CALL(G, phase > IDLE && phase < TOLD_FAILED && calls < CALLS && SERVED && concurrent_calls > 0, concurrent_calls--) \
	CALL(G, phase == TOLD_FAILED && calls < CALLS, mint++) \
	CALL(G, phase > TOLD_FAILED && calls < CALLS && reruns > 0, reruns--) \
	OF_KEY(G, 0)

#if CALLS == 1
#define HOLDS_MORE(G) false
#define OF_ALL_KEYS(G) OF_GUARD(G)
#elif CALLS == 2
#define HOLDS_MORE(G) HOLDS(G, 1)
#define OF_ALL_KEYS(G) OF_GUARD(G) OF_KEY(G, 1)
#else
#define HOLDS_MORE(G) (HOLDS(G, 1) || HOLDS(G, 2))
#define OF_ALL_KEYS(G) OF_GUARD(G) OF_KEY(G, 1) OF_KEY(G, 2)
#endif

/* Whether message i would overtake another one of its lane, which is a fault with a bound. */
#define BEFORE(j, i) (j < i && LANE(net[j]) == LANE(net[i]) && net[j] != net[i])
#define OVERTAKES(i) (IN_ORDER(net[i]) && (BEFORE(0, i) || BEFORE(1, i) || BEFORE(2, i) || BEFORE(3, i) || \
	BEFORE(4, i) || BEFORE(5, i) || BEFORE(6, i)))

/* Slot i holds a message to which something can happen, and that differs from the one before, so that two equal ones are not
 * two possibilities. */
#define DIFFERS(i) \
	:: net[i] != 0 && net[i] != net[i - 1] && (!OVERTAKES(i) || reorderings > 0 || \
		(KIND(net[i]) == REQUEST && (duplicates > 0 || lost_requests > 0))) -> pick = i
#define REQUESTED(when, what) \
	:: d_step { KIND(net[pick]) == REQUEST && (when) -> arrive(pick); what }
#define REQUESTED_IN_TURN(when, what) REQUESTED((when) && !OVERTAKES(pick), what)

#define ENDED(k) (record[k] == NONE || record[k] >= SETTLED)

/* With FAULTS_STOP, faults may end at any moment; then a state in which only faults were left is seen to be at rest. */
#define FAULTS_LEFT (timeouts + guard_crashes + takeovers + tool_crashes_before + tool_crashes_after + errors_before + \
	errors_after + rejections + lost_requests + lost_replies + duplicates + reorderings + concurrent_calls + reruns > 0)
inline no_more_faults() {
	timeouts = 0; guard_crashes = 0; takeovers = 0; tool_crashes_before = 0; tool_crashes_after = 0; errors_before = 0;
	errors_after = 0; rejections = 0; lost_requests = 0; lost_replies = 0; duplicates = 0; reorderings = 0;
	concurrent_calls = 0; reruns = 0
}

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
			REQUESTED_IN_TURN(true, carry_out(); reply(e, n))
			REQUESTED(OVERTAKES(pick) && reorderings > 0, reorderings--; carry_out(); reply(e, n))
			REQUESTED_IN_TURN(tool_crashes_before > 0, tool_crashes_before--; reply(LOST, 0))
			REQUESTED_IN_TURN(tool_crashes_after > 0, tool_crashes_after--; carry_out(); reply(LOST, 0))
			REQUESTED_IN_TURN(errors_before > 0, errors_before--; reply(UNPROVEN, 0))
			REQUESTED_IN_TURN(errors_after > 0, errors_after--; carry_out(); reply(UNPROVEN, 0))
			REQUESTED_IN_TURN(rejections > 0, rejections--; reply(NOT_RUN, 0))
			REQUESTED(lost_requests > 0, lost_requests--)
			:: d_step { KIND(net[pick]) == REQUEST && duplicates > 0 -> duplicates--; m = net[pick]; put(m) }
			:: d_step { IS_QUESTION(net[pick]) && !OVERTAKES(pick) -> arrive(pick); look() }
			:: d_step { IS_QUESTION(net[pick]) && OVERTAKES(pick) && reorderings > 0 -> reorderings--; arrive(pick); look() }
			:: d_step { IS_REPLY(net[pick]) || IS_SEEN(net[pick]) -> arrive(pick); receive() }
			:: d_step { IS_REPLY(net[pick]) && lost_replies > 0 -> lost_replies--; arrive(pick) }
			fi
		OF_ALL_KEYS(0)
#if GUARDS > 1
		OF_ALL_KEYS(1)
#endif
#if GUARDS > 2
		OF_ALL_KEYS(2)
#endif
#ifdef FAULTS_STOP
		:: d_step { FAULTS_LEFT -> no_more_faults() }
#endif
#ifndef ROUNDS
		:: timeout ->                                         /* nothing can happen any more */
			d_step { claim(ENDED(0) && ENDED(CALLS / 2) && ENDED(CALLS - 1), settles) }
#endif
		fi;
		d_step { forget(); check() }
	}
	od;
	skip
}
