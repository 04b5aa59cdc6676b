"""The images' Dockerfiles: what they install, copy, leave out and run as."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import build_horovod
import dockerfiles
import lock
from support.chart import REPOSITORY
from support.codecs import hide_libturbojpeg

IMAGES = REPOSITORY / "images"
DOCKERFILES = {path.parent.name: path.read_text() for path in IMAGES.glob("*/Dockerfile")}
# Which of the distributions an image installs.
DISTRIBUTIONS = {name: name.partition("-")[0] for name in DOCKERFILES}
WITH_HOROVOD = [name for name, text in DOCKERFILES.items() if "build_horovod.py" in text]


def lines(image: str) -> str:
    """Return a Dockerfile with one line for each instruction."""
    return re.sub(r" +", " ", DOCKERFILES[image].replace("\\\n", " "))


def test_every_image_is_known_here() -> None:
    assert set(DOCKERFILES) == set(dockerfiles.TABLE)
    assert set(DOCKERFILES) == set(lock.LOCKS) - {"build", "horovod", "horovod-cu112", "sbom"}


def test_the_check_names_the_file_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dockerfiles.main(["--check"]) == 0
    monkeypatch.setattr(dockerfiles, "IMAGES", tmp_path)
    assert dockerfiles.main([]) == 0
    written = {path.parent.name: path.read_text() for path in tmp_path.glob("*/Dockerfile")}
    assert written == DOCKERFILES
    (tmp_path / "workloads-r" / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "operator" / "Dockerfile").unlink()
    assert dockerfiles.main(["--check"]) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if "written" not in line]
    assert [Path(line.partition(":")[0]).parent.name for line in said] == [
        "operator",
        "workloads-r",
    ]
    assert all("make generate" in line for line in said)


def test_a_condition_names_what_an_image_has() -> None:
    conditions = re.findall(r"^#if (.+)$", dockerfiles.TEMPLATE.read_text(), re.MULTILINE)
    named = {word for condition in conditions for word in condition.split()} - {"and", "not"}
    table = dockerfiles.TABLE.values()
    had = {word for image in table for word in (image.framework, *image.has) if word}
    assert named == had | set(DISTRIBUTIONS.values())


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("mxnet", True),
        ("workloads", True),
        ("operator", False),
        ("not gpu", True),
        ("not mxnet", False),
        ("mxnet and horovod", True),
        ("mxnet and not horovod", False),
        ("mxnet and gpu", False),
    ],
)
def test_a_line_stays_if_its_condition_holds(condition: str, holds: bool) -> None:
    image = dockerfiles.Image("About.", "Training", framework="mxnet", has=("horovod",))
    template = f"RUN make \\\n#if {condition}\n {{name}}\n#else\n {{framework}}\n#endif\n"
    found = dockerfiles.render("workloads-mxnet", image, template)
    assert found == f"RUN make \\\n {'workloads-mxnet' if holds else 'mxnet'}\n"
    within = f"#if horovod\n{template}#endif\n#if gpu\n{template}#endif\nUSER 1\n"
    assert dockerfiles.render("workloads-mxnet", image, within) == f"{found}USER 1\n"


def test_a_command_that_nothing_continues_has_no_backslash() -> None:
    template = "RUN make \\\n && make check \\\n#if gpu\n && nvcc\n#endif\n# \\\nUSER 1\n"
    found = dockerfiles.render("operator", dockerfiles.TABLE["operator"], template)
    assert found == "RUN make \\\n && make check\n# \\\nUSER 1\n"


@pytest.mark.parametrize("image", DOCKERFILES)
def test_everything_is_installed_by_hash_and_ours_after_it(image: str) -> None:
    installs = [step.strip() for step in re.findall(r"pip [^&\n]*install [^&\n]*", lines(image))]
    own = [step for step in installs if "--no-index" in step]
    locked = [step for step in installs if "--require-hashes" in step]
    assert sorted([*own, *locked]) == sorted(installs)
    # Wheels alone: nothing is compiled at installation. build.txt makes the wheels of the project.
    assert all("--only-binary :all:" in step for step in locked if "build.txt" not in step)
    (installed,) = own
    assert "--no-deps" in installed and "/source/wheels/*.whl" in installed
    assert f"--requirement /source/{image}.txt" in " ".join(locked)
    text = DOCKERFILES[image]
    assert text.index(f"--requirement /source/{image}.txt") < text.index("/source/wheels/*.whl")
    assert "pip wheel --no-index --no-deps --no-build-isolation" in text
    assert f"/source/{DISTRIBUTIONS[image]}\n" in text


@pytest.mark.parametrize("image", DOCKERFILES)
def test_the_base_is_an_argument_whose_default_is_the_tag(image: str) -> None:
    text = DOCKERFILES[image]
    default = "ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm\n"
    assert text.count(default) == 1
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    assert set(bases) - stages == {"$BASE_IMAGE"}
    assert 'org.opencontainers.image.base.name="$BASE_IMAGE"' in text
    assert "ARG BASE_IMAGE\n" in text.rpartition("FROM ")[2], "otherwise the label is empty"


@pytest.mark.parametrize("image", DOCKERFILES)
def test_an_image_lists_its_content_without_the_tool_that_does(image: str) -> None:
    stages = re.split(r"^FROM ", DOCKERFILES[image], flags=re.MULTILINE)
    assert stages[-2].startswith("programs AS inventory\n")
    assert "sbom.py /opt/imagenet/bin/python" in stages[-2]
    document = f"/usr/share/doc/imagenet-{DISTRIBUTIONS[image]}/"
    copied = f"COPY --from=inventory /sbom/sbom.cdx.json {document}\n"
    assert stages[-1].startswith(f"programs\n{copied}")


@pytest.mark.parametrize("image", WITH_HOROVOD)
def test_an_image_has_horovod_s_licence_and_says_that_it_was_changed(image: str) -> None:
    text = lines(image)
    for file in ("horovod-idle-cycle.patch", "horovod-notice.txt"):
        assert re.search(rf"^COPY .*images/{file}.* /usr/share/doc/horovod/$", text, re.MULTILINE)
    assert re.search(r"cp \S+/horovod-\*\.dist-info/LICENSE /usr/share/doc/horovod/", text)
    notice = (IMAGES / "horovod-notice.txt").read_text()
    version = f"{build_horovod.VERSION}+{build_horovod.PATCHED['HOROVOD_LOCAL_VERSION']}"
    assert version in notice and build_horovod.PATCH.name in notice


@pytest.mark.parametrize("image", WITH_HOROVOD)
def test_horovod_is_built_apart_so_that_no_compiler_stays(image: str) -> None:
    stages = re.split(r"^FROM ", DOCKERFILES[image], flags=re.MULTILINE)
    (builder,) = (stage for stage in stages if "/horovod/build_horovod.py " in stage)
    assert builder.startswith("environment AS horovod\n")
    assert "g++" in builder
    programs, *_, final = (stage for stage in stages if "programs" in stage.partition("\n")[0])
    assert programs.startswith("environment AS programs\n")
    assert final.startswith("programs\n")
    assert "g++" not in programs + final
    assert "COPY --from=horovod /wheels /source/horovod\n" in programs
    assert "/source/horovod/*.whl" in programs


@pytest.mark.parametrize("image", WITH_HOROVOD)
def test_what_this_machine_has_kept_of_horovod_decides_no_other_layer(image: str) -> None:
    """The frameworks are installed before; a folder without wheels is in every clone."""
    text = DOCKERFILES[image]
    assert text.count("images/kept") == 2
    copy = "COPY images/build_horovod.py images/horovod-idle-cycle.patch images/kept /horovod/\n"
    before, copied, after = text.partition(copy)
    assert copied
    assert f"--requirement /source/{image}.txt" in before
    assert "--into /wheels --cache /horovod\n" in after
    assert (IMAGES / "kept/.gitignore").read_text().splitlines()[1:] == ["*", "!.gitignore"]


@pytest.mark.parametrize("image", DOCKERFILES)
def test_an_image_runs_as_a_number_that_is_not_root(image: str) -> None:
    (user,) = re.findall(r"^USER (.+)$", DOCKERFILES[image], re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


@pytest.mark.parametrize("image", DOCKERFILES)
def test_what_an_image_copies_is_there_and_sent_to_the_engine(image: str) -> None:
    sent = {line[1:] for line in _ignore() if line.startswith("!")}
    text = DOCKERFILES[image].replace("\\\n", " ")
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (REPOSITORY / source).exists(), source
            assert source.partition("/")[0] in sent, source


def _ignore() -> list[str]:
    return (REPOSITORY / ".dockerignore").read_text().splitlines()


CODEC_IMAGES = [name for name, text in DOCKERFILES.items() if "libturbojpeg0" in text]


@pytest.mark.libturbojpeg
@pytest.mark.parametrize("image", CODEC_IMAGES)
def test_the_build_of_an_image_loads_the_planes_codec(image: str, tmp_path: Path) -> None:
    (code,) = re.findall(r'/opt/imagenet/bin/python -c "(.*prepare.*)"', DOCKERFILES[image])
    name, value = hide_libturbojpeg(tmp_path / "libraries")
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=False).returncode == 0
    without = subprocess.run(command, env={name: value}, capture_output=True, check=False)
    assert without.returncode == 1
    assert b"install the package libturbojpeg0" in without.stderr


def test_every_image_of_the_workloads_has_the_library_of_the_planes_codec() -> None:
    assert set(CODEC_IMAGES) == set(DOCKERFILES) - {"operator"}
