"""The strategy `single`: one worker without peers."""

from support.job_table import JOBS, members


def test_the_worker_has_no_peers() -> None:
    (worker,) = members(JOBS["single"])
    container = worker["spec"]["containers"][0]
    names = {item["name"] for item in container["env"]}
    assert not {name for name in names if name.startswith("DMLC_")}
    assert "PORT" not in names
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert container["args"][container["args"].index("--kv-store") + 1] == "local"
