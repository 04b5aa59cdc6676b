"""The work queue against a model: any order of wishes, work, failures and time."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from imagenet_operator.clusters.queue import FIRST_DELAY, LONGEST_DELAY, WorkQueue

KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """What has been wished for is worked on, once at a time, and nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[str] = WorkQueue()
        self.now = 0.0
        self.wished: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: set[str] = set()

    @rule(key=KEYS, low_priority=st.booleans())
    def add(self, key: str, low_priority: bool) -> None:
        self.queue.add(key, low_priority=low_priority)
        self.wished.add(key)

    @rule(key=KEYS, delay=st.floats(0, 10))
    def add_later(self, key: str, delay: float) -> None:
        due = self.now + delay
        self.queue.add_at(key, due)
        self.due[key] = min(due, self.due.get(key, due))

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        for key, due in list(self.due.items()):
            if due <= self.now:
                del self.due[key]
                self.wished.add(key)
        taken = self.queue.get(self.now)
        free = self.wished - self.working
        if taken is None:
            assert not free
            return
        assert taken in free
        self.wished.discard(taken)
        self.due.pop(taken, None)
        self.working.add(taken)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), failed=st.booleans())
    def finish(self, data: st.DataObject, failed: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        if failed:
            delay = self.queue.failed(key, self.now)
            assert FIRST_DELAY <= delay <= LONGEST_DELAY
            due = self.now + delay
            self.due[key] = min(due, self.due.get(key, due))
        else:
            self.queue.succeeded(key)
        self.queue.done(key)
        self.working.discard(key)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.due.pop(key, None)

    @invariant()
    def it_knows_when_to_wake(self) -> None:
        assert self.queue.next_due() == min(self.due.values(), default=None)
        assert len(self.queue) == len(self.wished)


TestQueueMachine = QueueMachine.TestCase


def test_keys_come_in_the_order_of_their_wishes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "cab":
        queue.add(key)
    queue.add("c")

    assert [queue.get(0) for _ in range(4)] == ["c", "a", "b", None]


def test_whoever_was_only_listed_lets_others_go_first() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("listed", low_priority=True)
    queue.add("other", low_priority=True)
    queue.add("changed")
    queue.add("other")

    assert [queue.get(0) for _ in range(3)] == ["changed", "other", "listed"]


def test_a_wish_during_the_work_is_kept_until_its_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.get(0)
    queue.add("a")
    queue.add("a")

    assert queue.get(0) is None
    queue.done("a")
    assert queue.get(0) == "a"
    queue.done("a")
    assert queue.get(0) is None


def test_failures_in_a_row_wait_longer_and_longer() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = []
    for _ in range(12):
        queue.add("a")
        queue.get(0)
        delays.append(queue.failed("a", 0))
        queue.done("a")

    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LONGEST_DELAY
    queue.succeeded("a")
    assert queue.failed("a", 0) == FIRST_DELAY


def test_looking_fulfils_the_wish_for_later() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", 5)
    queue.add("a")

    assert queue.get(0) == "a"
    assert queue.next_due() is None
