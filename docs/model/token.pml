/*
 * The fencing tokens of an election on three Redis nodes: the claim, raise,
 * renew and release scripts of elector/internal/protocol, and the candidates that
 * run them (voter.go). README.md beside this file says what is checked, and by
 * which of the switches below the checks themselves are checked.
 *
 * There are no clocks, and the lock is not trusted: what time could decide may
 * happen at any moment. A lease may run out while its leader leads, and a
 * request may be carried out by any node, once, again, much later, or never.
 *
 * An attempt is one call of Voter.Claim, and the term that may come of it.
 */

#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef FORGETS
#define FORGETS 1 /* how often a node may lose all its data */
#endif
#ifndef AT_ONCE
#define AT_ONCE 2 /* attempts that are under way at one time */
#endif
#ifndef CAP
#define CAP 3 /* no token beyond this one: it bounds the search */
#endif

#define NODES 3
#define ALL 7 /* the three nodes, as bits */
#define BIT(n) (1 << (n))
#define MAJORITY(set) ((set) == 3 || (set) == 5 || (set) == 6 || (set) == ALL)
#define MAX(x, y) ((x) > (y) -> (x) : (y))

/* What a node keeps. As any lock may run out at any time, it keeps nobody from
 * anything here; what remains of it is whether an attempt still holds it. */
#define NOBODY 255
byte lock[NODES] = NOBODY;
byte fence[NODES];

/* The attempts. What was sent stays on its way for ever: claims from CLAIMING
 * on, renewals and the release when it is a TERM. */
#define IDLE 0
#define CLAIMING 1 /* claims are sent, no majority was heard */
#define RAISING 2 /* the nodes granted different tokens */
#define TERM 3
#define OVER 4 /* lost, or given up; a term that ended stays a TERM: it may not know */
byte phase[ATTEMPTS];
byte token[ATTEMPTS];
#define UNDECIDED(a) (phase[a] == CLAIMING || phase[a] == RAISING)

/* What the candidate has heard: the token that a node granted (0: no answer),
 * and which nodes agreed to the highest. */
typedef Answers { byte won[NODES]; byte raised }
Answers heard[ATTEMPTS];
#define WON(a, n) heard[a].won[n]

/* Ghosts. The candidates can't see these; the assertions and the assumption do. */
byte newest;          /* the highest token of all terms so far */
byte holder = NOBODY; /* the attempt that has it */
byte knows;           /* nodes that were given it, and have not forgotten since */
byte used;            /* the tokens of all terms, as bits */
byte floor[ATTEMPTS]; /* newest, when the attempt began */
byte stale[ATTEMPTS]; /* nodes that have forgotten since the attempt began */
byte forgets;
byte under_way; /* attempts that are not decided yet */

/* A node that forgot abstains for a lease, and an attempt that is older than a
 * lease becomes no term. So what it answers to an older attempt is too late. */
#ifdef NO_ABSTENTION
#define IN_TIME(n, a) UNDECIDED(a)
#else
#define IN_TIME(n, a) (UNDECIDED(a) && !(stale[a] & BIT(n)))
#endif

/* claim.lua: takes the lock, and hands out a token above all before it. How far
 * above is up to the hint, which is a clock's: it may be anything. */
#ifdef EQUAL_GRANT
#define LOWEST(n) MAX(fence[n], 1)
#else
#define LOWEST(n) (fence[n] + 1)
#endif

inline grant(n, a) {
	fence[n] = LOWEST(n);
	if
	:: phase[a] == CLAIMING && IN_TIME(n, a) && WON(a, n) == 0 ->
		do
		:: fence[n] < CAP -> fence[n]++
		:: break
		od;
		WON(a, n) = fence[n]
#ifdef NO_ABSTENTION
		; stale[a] = stale[a] & ~BIT(n)
#endif
	:: true /* the answer gets lost, or comes too late */
	fi;
	if
	:: UNDECIDED(a) -> lock[n] = a
	:: else -> lock[n] = NOBODY
	fi
}

/* raise.lua: where the lock is still this attempt's. (One that is carried out
 * after the attempt was decided does no more than a late claim may do.) */
#ifdef RAISE_ANYWHERE
#define MAY_RAISE(n, a) (fence[n] <= token[a])
#else
#define MAY_RAISE(n, a) (lock[n] == a && fence[n] <= token[a])
#endif

inline raise(n, a) {
	fence[n] = token[a];
	if
	:: IN_TIME(n, a) -> heard[a].raised = heard[a].raised | BIT(n)
	:: true
	fi
}

/* renew.lua: prolongs the lock or plants it, and copies the token to the node.
 * (The script refuses some plants that are allowed here. Its answer decides
 * about leases, not about tokens, so nobody listens to it.) */
inline renew(n, a) {
	lock[n] = NOBODY;
#ifndef NO_WRITE_BACK
	fence[n] = MAX(fence[n], token[a]);
#endif
	if
	:: holder == a -> knows = knows | BIT(n)
	:: else
	fi
}

/* release.lua: closes the token. (That of a lost attempt only frees the lock.) */
inline release(n, a) {
	lock[n] = NOBODY;
	fence[n] = MAX(fence[n], token[a]) + 1
}

/* THE ASSUMPTION, as elector/doc.go has it: no node of the granting majority
 * forgets before the first renewal has copied the token to the others. So a node
 * may lose everything once both others were given the newest token, by the claim,
 * the raise, or a renewal that arrived (whatever that wrote). Before the first
 * term, and for attempts that never become one, any node may. */
#ifdef FORGET_ANY_TIME
#define MAY_FORGET(n) true
#else
#define MAY_FORGET(n) (newest == 0 || (knows | BIT(n)) == ALL)
#endif

inline forget(n) {
	lock[n] = NOBODY;
	fence[n] = 0;
	knows = knows & ~BIT(n);
	forgets++;
	for (i : 0 .. ATTEMPTS - 1) {
		if
		:: UNDECIDED(i) -> stale[i] = stale[i] | BIT(n)
		:: else
		fi
	}
	i = 0
}

#define CARRY_OUT(n, a) \
	:: atomic { phase[a] != IDLE && LOWEST(n) <= CAP -> grant(n, a) } \
	:: atomic { phase[a] == RAISING && MAY_RAISE(n, a) -> raise(n, a) } \
	:: d_step { phase[a] == TERM -> renew(n, a) } \
	:: d_step { phase[a] == TERM && MAX(fence[n], token[a]) < CAP -> release(n, a) }

proctype Node(byte n) {
	byte i;
	do
	CARRY_OUT(n, 0)
	CARRY_OUT(n, 1)
#if ATTEMPTS > 2
	CARRY_OUT(n, 2)
#endif
#if ATTEMPTS > 3
	CARRY_OUT(n, 3)
#endif
	:: d_step { forgets < FORGETS && fence[n] && MAY_FORGET(n) -> forget(n) }
	od
}

/* Voter.agree: what the nodes granted, and what of it counts as agreement. */
#define HIGHEST(a) MAX(WON(a, 0), MAX(WON(a, 1), WON(a, 2)))
#define SET(x, y, z) (((x) -> 1 : 0) + ((y) -> 2 : 0) + ((z) -> 4 : 0))
#define GRANTED(a) SET(WON(a, 0), WON(a, 1), WON(a, 2))
#define GRANTED_IT(a) SET(WON(a, 0) == token[a], WON(a, 1) == token[a], WON(a, 2) == token[a])

#if defined(ANY_VALUE) || defined(MAX_WITHOUT_RAISE)
#define AGREED(a) GRANTED(a)
#else
#define AGREED(a) GRANTED_IT(a)
#endif

/* The attempt becomes a term. What is asserted: no other term has its token, and
 * the terms that were there when it began have smaller ones. */
inline win(a) {
	/* Outside of the assumption: a node of this majority has forgotten. */
	MAJORITY(heard[a].raised & ~stale[a]);
	assert(!(used & BIT(token[a])));
	assert(token[a] > floor[a]);
	used = used | BIT(token[a]);
	if
	:: token[a] > newest ->
		newest = token[a];
		holder = a;
		knows = heard[a].raised & ~stale[a]
	:: else
	fi;
	phase[a] = TERM;
	forgetAnswers(a)
}

/* Of a decided attempt nothing is looked at again. */
inline forgetAnswers(a) {
	WON(a, 0) = 0; WON(a, 1) = 0; WON(a, 2) = 0;
	heard[a].raised = 0;
	under_way--;
	stale[a] = 0;
	floor[a] = 0;
	if :: lock[0] == a -> lock[0] = NOBODY :: else fi;
	if :: lock[1] == a -> lock[1] = NOBODY :: else fi;
	if :: lock[2] == a -> lock[2] = NOBODY :: else fi
}

proctype Attempt(byte a) {
	/* One after another, as they are all alike; nothing waits for an earlier one to end. */
	d_step { (a == 0 || phase[a - 1] != IDLE) && under_way < AT_ONCE -> phase[a] = CLAIMING; floor[a] = newest; under_way++ };
	if
	:: atomic { MAJORITY(GRANTED(a)) ->
#ifdef ANY_VALUE
		token[a] = (WON(a, 0) -> WON(a, 0) : WON(a, 1)); /* whichever came first */
#else
		token[a] = HIGHEST(a);
#endif
		heard[a].raised = AGREED(a);
		WON(a, 0) = 0; WON(a, 1) = 0; WON(a, 2) = 0;
		phase[a] = RAISING }
	:: true
	fi;
	if
	:: atomic { phase[a] == RAISING && MAJORITY(heard[a].raised) -> win(a) }
	:: d_step { UNDECIDED(a) -> phase[a] = OVER; token[a] = 0; forgetAnswers(a) }
	fi
}

init {
	byte i;
	atomic {
		for (i : 0 .. NODES - 1) { run Node(i) }
		for (i : 0 .. ATTEMPTS - 1) { run Attempt(i) }
	}
}
