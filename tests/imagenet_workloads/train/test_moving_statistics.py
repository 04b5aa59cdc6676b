"""BatchNorm's moving statistics: averages in files, each device's own in training."""

from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.moving_statistics import (
    FILE_NAME,
    MovingStatistics,
    Rows,
    padded,
    save,
)
from support.framework_doubles import Alone


class Devices:
    """Two devices of rank 1 of two workers; the other worker's have given statistics."""

    others = np.array([[1, 2], [3, 4]], np.float32)

    def __init__(self, values: Rows) -> None:
        self.values = values

    def statistics(self) -> MovingStatistics:
        group = Alone(rank=1, workers=2)
        return MovingStatistics(self.read, self.write, self.gather, group)

    def read(self) -> Rows:
        return self.values.copy()

    def write(self, rows: Rows) -> None:
        self.values[:] = rows

    def gather(self, own: Rows) -> Rows:
        return padded(self.others, 0, 2) + padded(own, 1, 2)


@pytest.fixture
def devices() -> Devices:
    return Devices(np.array([[5, 6], [7, 12]], np.float32))


def test_the_next_step_goes_on_with_each_devices_own(devices: Devices) -> None:
    statistics = devices.statistics()
    statistics.average()
    assert devices.values.tolist() == [[4, 6], [4, 6]]
    # A second file of the same step has the same averages.
    statistics.average()
    assert devices.values.tolist() == [[4, 6], [4, 6]]
    statistics.restore_own()
    assert devices.values.tolist() == [[5, 6], [7, 12]]


def test_a_resumed_worker_evaluates_with_averages_and_trains_with_its_own(
    devices: Devices, tmp_path: Path
) -> None:
    saved = devices.statistics()
    saved.average()
    save(tmp_path, saved.of_all)
    resumed = Devices(devices.values.copy())
    statistics = resumed.statistics()
    statistics.load(tmp_path)
    assert resumed.values.tolist() == [[4, 6], [4, 6]]
    statistics.restore_own()
    assert resumed.values.tolist() == [[5, 6], [7, 12]]


def test_another_number_of_devices_goes_on_with_the_averages(
    devices: Devices, tmp_path: Path
) -> None:
    np.save(tmp_path / FILE_NAME, np.zeros((6, 2), np.float32))
    statistics = devices.statistics()
    statistics.load(tmp_path)
    statistics.restore_own()
    assert devices.values.tolist() == [[5, 6], [7, 12]]


def test_a_damaged_file_is_named(devices: Devices, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no array")
    with pytest.raises(InputError, match=r"statistics\.npy: not a file of an array"):
        devices.statistics().load(tmp_path)
