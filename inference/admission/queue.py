"""The one waiting list in front of an engine: bounded, and served in the order of three levels.

    classes of priority, the most urgent first
      └─ users of a class, the least served first
           └─ waiters of a user, by ranking.py

At each level nobody is passed over more than 32 times in a row (bypass_bound.py): then it is the only
candidate, and where it does not fit yet, nobody is, so that what it needs becomes free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inference.admission.bypass_bound import BypassBound
from inference.admission.estimator import Work
from inference.admission.families import PromptFamilies, SortedPrompts
from inference.admission.waiter import Waiter
from inference.domain.priority import PriorityClass

MIN_QUEUE, MAX_QUEUE, QUEUE_PER_LANE = 16, 256, 8

Served = Callable[[int], float]
URGENCIES = {priority: urgency for urgency, priority in enumerate(PriorityClass)}


def _urgency(waiter: Waiter) -> int:
    """0 is the most urgent."""
    return URGENCIES[waiter.submission.request.priority]


def default_max_queue(num_lanes: int) -> int:
    """clamp(8 × lanes, 16, 256): room for a burst, but not for waits that nobody sits out."""
    return min(max(QUEUE_PER_LANE * num_lanes, MIN_QUEUE), MAX_QUEUE)


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The waiters of one user that fit and may go next, with their ages in turns. `is_closed`:
    somebody who does not fit yet must be waited for, so nobody else may go."""

    prompts: SortedPrompts
    ages: tuple[int, ...]
    is_closed: bool = False


NOBODY = Shortlist(SortedPrompts((), ()), ())
WAIT_FOR_SENIOR = Shortlist(SortedPrompts((), ()), (), is_closed=True)


def _only(waiter: Waiter) -> Shortlist:
    return Shortlist(SortedPrompts((waiter,), (0,)), (0,))


class UserQueue:
    """The waiters of one user in one class."""

    def __init__(self) -> None:
        self._bound: BypassBound[Waiter] = BypassBound()
        self._families = PromptFamilies()

    def __len__(self) -> int:
        return len(self._bound)

    def add(self, waiter: Waiter) -> None:
        self._bound.join(waiter)
        self._families.add(waiter)

    def remove(self, waiter: Waiter, *, is_elected: bool) -> None:
        if is_elected:
            self._bound.take_turn(waiter)
        self._bound.leave(waiter)
        self._families.remove(waiter)

    def shortlist(self, num_free_tokens: int) -> Shortlist:
        senior = self._bound.starving()
        if senior is not None:
            return _only(senior) if senior.num_needed_tokens <= num_free_tokens else WAIT_FOR_SENIOR
        prompts = self._families.fitting(num_free_tokens)
        return Shortlist(prompts, tuple(map(self._bound.age, prompts.waiters)))

    def check_integrity(self) -> None:
        self._families.check_integrity()
        assert len(self._bound) == len(self._families)


class ClassQueue:
    """The users who wait in one class."""

    def __init__(self) -> None:
        self._bound: BypassBound[int] = BypassBound()
        self._users: dict[int, UserQueue] = {}

    def __len__(self) -> int:
        return len(self._users)

    def __contains__(self, user_id: int) -> bool:
        return user_id in self._users

    def add(self, waiter: Waiter) -> None:
        user_id = waiter.user_id
        if user_id not in self._users:
            self._users[user_id] = UserQueue()
            self._bound.join(user_id)
        self._users[user_id].add(waiter)

    def remove(self, waiter: Waiter, *, is_elected: bool) -> None:
        user_id = waiter.user_id
        user = self._users[user_id]
        user.remove(waiter, is_elected=is_elected)
        if is_elected:
            self._bound.take_turn(user_id)
        if not user:
            del self._users[user_id]
            self._bound.leave(user_id)

    def shortlist(self, num_free_tokens: int, served: Served) -> Shortlist:
        starving = self._bound.starving()
        if starving is not None:
            found = self._users[starving].shortlist(num_free_tokens)
            return found if found.prompts.waiters else WAIT_FOR_SENIOR
        # Sorting is stable: of those who got the same, the longest waiting is first.
        for user_id in sorted(self._bound, key=served):
            found = self._users[user_id].shortlist(num_free_tokens)
            if found.prompts.waiters or found.is_closed:
                return found
        return NOBODY

    def check_integrity(self) -> None:
        assert set(self._bound) == set(self._users)
        for user in self._users.values():
            assert user
            user.check_integrity()


@dataclass(frozen=True, slots=True)
class AdmissionQueueStatistics:
    """`num_starting` could start at once and only wait for the engine's next step; they are not among
    the `num_waiting`, which may be more than `max_waiting` (see AdmissionQueue)."""

    num_waiting: int
    max_waiting: int
    num_starting: int = 0


class AdmissionQueue:
    """Not thread-safe by itself: the controller's mutex guards it.

    Who finds a free lane and free tokens while nobody waits, starts at once: the engine takes it first
    thing in its next step. Until then it is here, ahead of everybody, and what it needs is promised
    to it, but it counts neither as waiting nor as a turn.

    One user with many clients must not keep all others out. So where `max_waiting` wait, there are
    still `max_firsts` places for those who have nothing waiting in their class.
    """

    def __init__(self, *, max_waiting: int, max_firsts: int = 0) -> None:
        self._max_waiting = max_waiting
        self._max_firsts = max_firsts
        self._starting: dict[Waiter, None] = {}
        self._num_promised_tokens = 0
        self._classes: dict[PriorityClass, ClassQueue] = {}
        self._bound: BypassBound[PriorityClass] = BypassBound()
        self._waiting: dict[Waiter, None] = {}
        self._num_ever = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def has_place(self, *, user_id: int, priority: PriorityClass) -> bool:
        """A newcomer of this user and class may wait here."""
        if len(self._waiting) < self._max_waiting:
            return True
        is_first = user_id not in self._classes.get(priority, ())
        return is_first and len(self._waiting) < self._max_waiting + self._max_firsts

    def __contains__(self, waiter: Waiter) -> bool:
        return waiter in self._waiting or waiter in self._starting

    def may_start(self, num_needed_tokens: int, *, num_lanes: int, num_free_tokens: int) -> bool:
        """Nobody waits, and beside those who are about to start there is room for another one."""
        return (
            not self._waiting
            and len(self._starting) < num_lanes
            and self._num_promised_tokens + num_needed_tokens <= num_free_tokens
        )

    def start(self, waiter: Waiter) -> None:
        """It `may_start`."""
        self._starting[waiter] = None
        self._num_promised_tokens += waiter.num_needed_tokens

    def push(self, waiter: Waiter) -> None:
        """It waits; the caller has seen that it has a place."""
        self._num_ever += 1
        waiter.order = self._num_ever
        priority = waiter.submission.request.priority
        if priority not in self._classes:
            self._classes[priority] = ClassQueue()
            self._bound.join(priority)
        self._classes[priority].add(waiter)
        self._waiting[waiter] = None

    def remove(self, waiter: Waiter, *, is_elected: bool = False) -> bool:
        """Take it out, wherever it stands. False if it is not here (any more)."""
        if waiter in self._starting:
            del self._starting[waiter]
            self._num_promised_tokens -= waiter.num_needed_tokens
            return True
        if waiter not in self._waiting:
            return False
        del self._waiting[waiter]
        priority = waiter.submission.request.priority
        members = self._classes[priority]
        members.remove(waiter, is_elected=is_elected)
        if is_elected:
            self._bound.take_turn(priority)
        if not members:
            del self._classes[priority]
            self._bound.leave(priority)
        return True

    def shortlist(self, num_free_tokens: int, served: Served) -> Shortlist:
        """Who may go next. `served` tells how many tokens a user got lately."""
        first = next(iter(self._starting), None)
        if first is not None:
            return _only(first) if first.num_needed_tokens <= num_free_tokens else WAIT_FOR_SENIOR
        starving = self._bound.starving()
        classes = PriorityClass if starving is None else (starving,)
        for priority in classes:
            members = self._classes.get(priority)
            if members is not None:
                found = members.shortlist(num_free_tokens, served)
                if found.prompts.waiters or found.is_closed:
                    return found
        return NOBODY

    def work_behind(self, newcomer: Waiter, served: Served) -> Work:
        """What waits and would go after a newcomer: less urgent classes, and of the same class what other
        users want beyond what the newcomer's will have got by then. `served` is as in `shortlist`."""
        urgency, user_id = _urgency(newcomer), newcomer.user_id
        num_prompt = num_decode = 0.0
        others: dict[int, list[Work]] = {}
        level = served(user_id)
        for waiter in self._waiting:
            if waiter.work is None:
                continue
            work = waiter.work.work
            if _urgency(waiter) > urgency:
                num_prompt += work.num_prompt_tokens
                num_decode += work.num_decode_tokens
            elif _urgency(waiter) == urgency and waiter.user_id == user_id:
                level += work.num_tokens
            elif _urgency(waiter) == urgency:
                others.setdefault(waiter.user_id, []).append(work)
        for other_id, works in others.items():
            wanted = sum(work.num_tokens for work in works)
            share = 1 - min(max(level - served(other_id), 0.0) / max(wanted, 1), 1.0)
            num_prompt += share * sum(work.num_prompt_tokens for work in works)
            num_decode += share * sum(work.num_decode_tokens for work in works)
        return Work(int(num_prompt), int(num_decode))

    def take_all(self) -> list[Waiter]:
        """Everybody, in the order in which they came."""
        everyone = [*self._starting, *self._waiting]
        for waiter in everyone:
            self.remove(waiter)
        return everyone

    def statistics(self) -> AdmissionQueueStatistics:
        return AdmissionQueueStatistics(len(self._waiting), self._max_waiting, len(self._starting))

    def check_integrity(self) -> None:
        """Raise AssertionError unless the levels hold exactly those who wait."""
        assert set(self._bound) == set(self._classes)
        for members in self._classes.values():
            assert members
            members.check_integrity()
        num_held = sum(len(user) for members in self._classes.values() for user in members._users.values())
        assert num_held == len(self._waiting) <= self._max_waiting + self._max_firsts, repr(self)
        assert self._num_promised_tokens == sum(one.num_needed_tokens for one in self._starting)

    def __repr__(self) -> str:
        waiting = f"{len(self._waiting)} waiting, at most {self._max_waiting}"
        return f"<AdmissionQueue: {waiting}, {len(self._starting)} starting>"
