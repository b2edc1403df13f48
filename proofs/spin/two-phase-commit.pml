/* Two-phase commit among MANAGERS resource managers (1 to 10), the same model as model/comparisons/src/two_phase_commit.rs:
 * messages stay for ever, and every move is one transition.
 *     spin -a -DMANAGERS=5 two-phase-commit.pml && cc -O2 -DSAFETY -DNOREDUCE pan.c -o pan && ./pan -c0 -m100000
 */
#ifndef MANAGERS
#define MANAGERS 3
#endif

#define WORKING 0
#define PREPARED 1
#define COMMITTED 2
#define ABORTED 3
byte manager[MANAGERS];

#define UNDECIDED 0
byte transaction;                      /* UNDECIDED, COMMITTED or ABORTED: that is also the message to all */
short heard_prepared;                  /* as bits */
short sent_prepared;

#define OF(M) \
	:: transaction == UNDECIDED && (sent_prepared & (1 << M)) -> heard_prepared = heard_prepared | (1 << M) \
	:: d_step { manager[M] == WORKING -> manager[M] = PREPARED; sent_prepared = sent_prepared | (1 << M) } \
	:: manager[M] == WORKING -> manager[M] = ABORTED \
	:: transaction == COMMITTED -> manager[M] = COMMITTED \
	:: transaction == ABORTED -> manager[M] = ABORTED

hidden byte i, committed, aborted, violated_consistent;

active proctype world() {
	do
	:: atomic {
		if
		:: transaction == UNDECIDED && heard_prepared == (1 << MANAGERS) - 1 -> transaction = COMMITTED
		:: transaction == UNDECIDED -> transaction = ABORTED
		OF(0)
#if MANAGERS > 1
		OF(1)
#endif
#if MANAGERS > 2
		OF(2)
#endif
#if MANAGERS > 3
		OF(3)
#endif
#if MANAGERS > 4
		OF(4)
#endif
#if MANAGERS > 5
		OF(5)
#endif
#if MANAGERS > 6
		OF(6)
#endif
#if MANAGERS > 7
		OF(7)
#endif
#if MANAGERS > 8
		OF(8)
#endif
#if MANAGERS > 9
		OF(9)
#endif
		fi;
		d_step {
			committed = 0;
			aborted = 0;
			i = 0;
			do
			:: i < MANAGERS ->
				committed = committed || manager[i] == COMMITTED;
				aborted = aborted || manager[i] == ABORTED;
				i++
			:: else -> break
			od;
			if
			:: committed && aborted && !violated_consistent -> violated_consistent = 1; assert(!violated_consistent)
			:: else
			fi
		}
	}
	od
}
