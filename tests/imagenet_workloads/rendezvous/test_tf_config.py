"""Where TensorFlow's workers listen, on one machine and in a cluster."""

from imagenet_workloads.rendezvous.tf_config import apart


def test_names_and_addresses_of_a_cluster_stay() -> None:
    workers = ["digits-r0-worker-0.digits-r0:9092", "10.0.0.7:9092", "localhost:9092"]
    assert apart(workers) == workers


def test_loopback_addresses_get_a_port_each() -> None:
    """TensorFlow listens on all addresses: the second worker would find the port taken."""
    workers = [f"127.31.7.{number}:9092" for number in range(2, 255)]
    ports = [int(worker.rpartition(":")[2]) for worker in apart(workers)]
    assert len(set(ports)) == len(workers)
    assert all(20_000 <= port < 32_000 for port in ports)
    hosts = [worker.rpartition(":")[0] for worker in apart(workers)]
    assert hosts == [worker.rpartition(":")[0] for worker in workers]


def test_workers_of_one_address_keep_ports_of_their_own() -> None:
    first, second = apart(["127.0.0.1:9092", "127.0.0.1:9093"])
    assert first != second
