"""The strategy `single`: one worker that looks for nobody."""

from imagenet_operator.manifests import attempt
from support.job_table import JOBS


def test_the_worker_has_no_peers() -> None:
    (worker,) = attempt.build(JOBS["single"], 0)[1:]
    container = worker["spec"]["containers"][0]
    names = {item["name"] for item in container["env"]}
    assert not {name for name in names if name.startswith("DMLC_")}
    assert "PORT" not in names
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert container["args"][container["args"].index("--kv-store") + 1] == "local"
