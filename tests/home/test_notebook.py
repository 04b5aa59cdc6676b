"""examples/notebook.ipynb in a kernel of Jupyter, on this machine."""

from __future__ import annotations

import filecmp
from pathlib import Path

from support import notebook


def test_the_notebook_trains_downloads_and_predicts(tmp_path: Path) -> None:
    # As an interrupted download leaves it.
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model-symbol.json").write_text("{")
    done = notebook.run(notebook.read(), tmp_path)

    assert notebook.text(done, "client") == "'the working directory work'"
    assert f"<td>{notebook.JOB}</td>" in notebook.text(done, "submit")
    log = notebook.text(done, "logs")
    assert "INFO epoch 5 validated on 180 images" in log
    # While there are no pods, it says what is waited for.
    assert "Preparing" in log
    assert "<td>Succeeded</td><td>5/5</td>" in notebook.text(done, "wait")
    (picture,) = (output["data"] for output in notebook.cell(done, "plot")["outputs"])
    assert len(picture["image/png"]) > 10_000
    trained = tmp_path / "work" / "jobs" / notebook.JOB / "model"
    files = ["model-symbol.json", "model-0005.params", "result.json"]
    same, different, _ = filecmp.cmpfiles(trained, tmp_path / "model", files, shallow=False)
    assert (same, different) == (files, [])
    # The sample is a 0.
    assert "[Prediction(label=0, name='0'" in notebook.text(done, "predict")
