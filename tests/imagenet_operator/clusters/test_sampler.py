"""The sampler against real servers on addresses of their own, good and bad ones."""

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from imagenet_operator.clusters.local import addresses
from imagenet_operator.clusters.sampler import Sampler, Target, fetch, targets
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.sample import Asked
from support.processes import wait_until

METRICS = (
    'imagenet_train_rank{imagenet_job="digits",namespace="d",role="worker",attempt="0"} 0\n'
    'imagenet_train_epoch{imagenet_job="digits",namespace="d",role="worker",attempt="0"} 3\n'
    'imagenet_train_images_per_second{role="worker",attempt="0"} 100\n'
)


def target(host: str, port: int) -> Target:
    return Target(host, port, Asked("worker", 0))


@contextmanager
def server(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[Target]:
    """An HTTP server whose GET is this function."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield target("127.0.0.1", running.server_address[1])
        finally:
            running.shutdown()
            thread.join()


def metrics(request: http.server.BaseHTTPRequestHandler) -> None:
    assert request.path == "/metrics"
    request.send_response(200)
    request.end_headers()
    request.wfile.write(METRICS.encode())


def error(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_error(500)


def endless(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b"x" * 65536)
    except OSError:
        pass


def binary(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(b"\xff\xfe")


def test_metrics_are_fetched() -> None:
    with server(metrics) as member:
        assert fetch(member, 10) == METRICS


@pytest.mark.parametrize("answer", [error, endless, binary])
def test_a_bad_answer_is_none(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> None:
    with server(answer) as member:
        assert fetch(member, 10) is None


def test_nobody_there_is_none() -> None:
    with closing(addresses.claim()) as block:
        assert fetch(target(block.of("nobody"), 9090), 10) is None


def test_silence_is_none_after_the_timeout() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        assert fetch(target(*silent.getsockname()), 0.05) is None


def test_a_drip_is_none_after_the_timeout() -> None:
    """Each byte comes in time, the whole does not."""
    stopped = threading.Event()

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not stopped.wait(0.01):
                request.wfile.write(b"x")
        except OSError:
            pass

    with server(drip) as member:
        assert fetch(member, 0.1) is None
        stopped.set()


def pod(name: str, *, phase: str = "Running", port: str = "metrics", **metadata: Any) -> Any:
    return {
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"ports": [{"name": port, "containerPort": 9090}]}]},
        "status": {"phase": phase, "podIP": "127.1.2.3"},
    }


def test_running_members_with_metrics_are_targets() -> None:
    children = [
        pod("running", labels={labels.JOB_ROLE: "worker", labels.ATTEMPT: "2"}),
        pod("unlabelled"),
        pod("pending", phase="Pending"),
        pod("ended", phase="Succeeded"),
        pod("ending", deletionTimestamp="now"),
        pod("other-port", port="http"),
        {"kind": "Service", "metadata": {"name": "service"}},
    ]

    assert targets(children) == {
        "running": Target("127.1.2.3", 9090, Asked("worker", 2)),
        "unlabelled": Target("127.1.2.3", 9090, Asked("", None)),
    }


def test_samples_come_and_are_announced() -> None:
    announced = threading.Event()
    with (
        server(metrics) as good,
        server(error) as bad,
        Sampler(0.01, 10, announced.set) as sampler,
    ):
        assert sampler.latest is None
        sampler.look_at({"good": good, "bad": bad})

        assert announced.wait(60)
        assert sampler.latest is not None
        assert (sampler.latest.attempt, sampler.latest.epoch) == (0, 3)


def test_a_member_that_hangs_does_not_hide_the_others() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        server(metrics) as good,
        Sampler(0.01, 0.1, lambda: None) as sampler,
    ):
        sampler.look_at({"silent": target(*silent.getsockname()), "good": good})

        sample = wait_until(lambda: sampler.latest, "a sample")
        assert sample is not None
        # What only all of them together could say, nobody said.
        assert (sample.epoch, sample.images_per_second) == (3, None)


def test_the_speed_of_all_stays_while_one_does_not_answer() -> None:
    late, refused = threading.Event(), threading.Semaphore(0)

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        if late.is_set():
            error(request)
            refused.release()
        else:
            metrics(request)

    with (
        server(metrics) as first,
        server(answer) as second,
        Sampler(0.01, 10, lambda: None) as sampler,
    ):
        sampler.look_at({"first": first, "second": second})
        whole = wait_until(lambda: sampler.latest, "a sample")
        late.set()
        for _ in range(2):
            # The look before the last is over.
            assert refused.acquire(timeout=60)
        part = sampler.latest

    assert whole is not None
    assert part is not None
    assert whole.taken_at < part.taken_at
    assert whole.images_per_second == part.images_per_second == 200


def test_nobody_to_ask_is_no_sample() -> None:
    announced = threading.Event()
    with closing(addresses.claim()) as block, Sampler(0.001, 1, announced.set) as sampler:
        sampler.look_at({"gone": target(block.of("gone"), 9090)})

        assert not announced.wait(0.05)
        assert sampler.latest is None


def test_members_that_fall_silent_are_looked_at_all_the_same() -> None:
    frozen, refused = threading.Event(), threading.Semaphore(0)

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        if frozen.is_set():
            error(request)
            refused.release()
        else:
            metrics(request)

    with server(answer) as member, Sampler(0.01, 10, lambda: None) as sampler:
        sampler.look_at({"member": member})
        heard = wait_until(lambda: sampler.latest, "a sample")
        frozen.set()
        looks = []
        for _ in range(2):
            # The look before the last is over.
            assert refused.acquire(timeout=60)
            assert refused.acquire(timeout=60)
            looks.append(sampler.latest)

    first, second = looks
    assert heard is not None
    assert first is not None
    assert second is not None
    assert heard.taken_at < first.taken_at < second.taken_at
    assert (second.attempt, second.epoch, second.progressed_at) == (0, 3, heard.progressed_at)
