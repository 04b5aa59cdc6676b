"""How long checkpoints hold training up."""

from imagenet_workloads.train.checkpointer import USUAL_STEPS, Stalls


def test_a_stall_is_what_touched_steps_take_above_the_median_of_the_others() -> None:
    stalls = Stalls()
    for seconds in (0.25, 0.5, 0.75):
        stalls.step(seconds, touched=False)
    stalls.checkpoint()
    for seconds in (1.5, 0.25, 0.75):
        stalls.step(seconds, touched=True)
    assert stalls.mean == 1.0
    stalls.checkpoint()
    assert stalls.mean == 0.5


def test_a_usual_step_is_one_of_the_last() -> None:
    stalls = Stalls()
    stalls.checkpoint()
    for seconds in (8.0, 1.0):
        for _ in range(USUAL_STEPS):
            stalls.step(seconds, touched=False)
    stalls.step(3.0, touched=True)
    assert stalls.mean == 2.0


def test_steps_that_are_shorter_by_chance_make_up_for_longer_ones() -> None:
    stalls = Stalls()
    for seconds in (0.25, 0.5, 0.75):
        stalls.step(seconds, touched=False)
    for seconds in (0.25, 0.5, 0.75, 0.25):
        stalls.checkpoint()
        stalls.step(seconds, touched=True)
    assert stalls.mean == 0.25 / 4


def test_time_between_two_epochs_counts_whole() -> None:
    stalls = Stalls()
    stalls.checkpoint()
    stalls.held(2.0)
    assert stalls.mean == 2.0


def test_without_a_checkpoint_there_is_no_stall() -> None:
    assert Stalls().mean is None


def test_the_first_step_has_no_usual_one_to_compare_with() -> None:
    stalls = Stalls()
    stalls.checkpoint()
    stalls.step(60.0, touched=True)
    assert stalls.mean == 0.0
