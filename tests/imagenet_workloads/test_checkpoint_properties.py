"""Attempts that write, die, damage and resume in any order, against a plain model of the rules."""

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position

IDENTITIES = st.sampled_from([Identity("ours", "ab12"), Identity("ours", "cd34")])
POSITIONS = st.builds(Position, st.integers(0, 3), st.integers(0, 2))


class Checkpoints(RuleBasedStateMachine):
    """The model is a dict of the checkpoints that must be found: who wrote them, whole or not."""

    @initialize(keep=st.integers(1, 3))
    def begin(self, keep: int) -> None:
        self.output = Path(tempfile.mkdtemp())
        self.keep = keep
        self.attempt = 0
        self.whole: dict[tuple[int, Position], Identity] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.output)

    def store(self, attempt: int, identity: Identity) -> CheckpointStore:
        return CheckpointStore(self.output, attempt, identity, self.keep)

    def folder(self, attempt: int, position: Position) -> Path:
        return self.output / "attempts" / f"r{attempt}" / "checkpoints" / position.name

    @rule()
    def restart(self) -> None:
        self.attempt += 1

    @rule(identity=IDENTITIES, position=POSITIONS)
    def write(self, identity: Identity, position: Position) -> None:
        with self.store(self.attempt, identity).begin(position) as folder:
            (folder / "params").write_text(f"{identity} {position}")
        self.whole[self.attempt, position] = identity
        kept = sorted(
            (
                written
                for (attempt, written), owner in self.whole.items()
                if attempt == self.attempt and owner == identity and written <= position
            ),
            reverse=True,
        )
        present = {path.name for path in self.folder(self.attempt, position).parent.iterdir()}
        # The rule that matters: what was just written stays, and never more than `keep` up to it.
        assert position.name in present
        for written in kept[self.keep :]:
            assert written.name not in present
        for attempt, written in list(self.whole):
            if attempt == self.attempt and written.name not in present:
                assert self.whole.pop((attempt, written)) == identity
                assert written < position

    @rule(identity=IDENTITIES, position=POSITIONS)
    def fail_to_write(self, identity: Identity, position: Position) -> None:
        try:
            with self.store(self.attempt, identity).begin(position) as folder:
                (folder / "params").write_text("half")
                raise ArithmeticError
        except ArithmeticError:
            pass

    @rule(choice=st.integers(0, 100), file=st.sampled_from(["params", "manifest.json"]))
    def damage(self, choice: int, file: str) -> None:
        if self.whole:
            attempt, position = sorted(self.whole)[choice % len(self.whole)]
            os.truncate(self.folder(attempt, position) / file, 1)
            del self.whole[attempt, position]

    @invariant()
    def every_attempt_finds_the_furthest_whole_one_of_its_training(self) -> None:
        for attempt in {self.attempt, 0}:
            for identity in (Identity("ours", "ab12"), Identity("ours", "cd34")):
                expected = max(
                    (
                        (position, number)
                        for (number, position), owner in self.whole.items()
                        if number <= attempt and owner == identity
                    ),
                    default=None,
                )
                found = self.store(attempt, identity).newest()
                if expected is None:
                    assert found is None
                else:
                    assert found is not None
                    assert (found.position, found.manifest.attempt) == expected
                    content = (found.folder / "params").read_text()
                    assert content == f"{identity} {found.position}"


TestCheckpoints = Checkpoints.TestCase
TestCheckpoints.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
