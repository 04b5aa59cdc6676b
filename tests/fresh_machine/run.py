"""README's two commands on a bare Debian 12 and 13: `make demo` and `make test`, timed.

    sudo make test-fresh-machine
    sudo python3 tests/fresh_machine/run.py --release trixie 'make demo'    # one command alone

Makes a root file system with debootstrap, with git, make, python3 and python3-venv, and clones the
commit that is checked out. Each command runs there as a plain user with an empty home; only the
file system needs root. The commands reach package indexes as this machine does: pip's settings,
certificate authorities, name servers and proxies are copied.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Also started by path, before anything is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kind.airgap.build import CERTIFICATES, machine_files

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = REPOSITORY / "build" / "fresh-machine"
RELEASES = ("bookworm", "trixie")
PACKAGES = ("git", "make", "python3", "python3-venv", "ca-certificates")
COMMANDS = ("make demo", "make test")
USER, HOME, CHECKOUT = "visitor", "/home/visitor", "/home/visitor/imagenetjob"
# Variables by which package managers find their servers.
COPIED = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
# Runs in new namespaces for mounts and processes, so none of them outlives this program.
INSIDE = """
set -e
mount --make-rprivate /
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --rbind /sys "$ROOT/sys"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm"
exec chroot --userspec="$ACCOUNT" "$ROOT" "$@"
"""


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of the commands: a plain one, and how packages are reached."""
    wanted = {*COPIED, *PROXIES, *(name.upper() for name in PROXIES)}
    authorities = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
    return {
        "HOME": HOME,
        "USER": USER,
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **{name: variables[name] for name in sorted(wanted) if name in variables},
        **dict.fromkeys(authorities, str(CERTIFICATES)),
    }


def check_requirements() -> None:
    """End with one line if this machine cannot make a root file system."""
    if os.geteuid() != 0:
        sys.exit("a root file system needs root: type sudo make test-fresh-machine")
    if shutil.which("debootstrap") is None:
        sys.exit("debootstrap is missing: apt-get install debootstrap")


def make_root(root: Path, release: str, mirror: str | None) -> None:
    """Make the file system of a release, unless it is there."""
    if root.is_dir():
        return
    unfinished = root.with_name(f"{root.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    included = f"--include={','.join(PACKAGES)}"
    command = ["debootstrap", "--variant=minbase", included, release, str(unfinished)]
    with tempfile.TemporaryDirectory() as folder:
        # A release that is newer than this debootstrap is installed as sid is.
        scripts = Path(
            shutil.copytree("/usr/share/debootstrap", folder, dirs_exist_ok=True), "scripts"
        )
        if not (scripts / release).exists():
            (scripts / release).symlink_to("sid")
        variables = {**os.environ, "DEBOOTSTRAP_DIR": folder}
        subprocess.run([*command, *([mirror] if mirror else [])], env=variables, check=True)
    unfinished.rename(root)


def make_home(root: Path) -> str:
    """Give the root file system a user whose home has only the checkout; return USER:GROUP."""
    enter = ["chroot", str(root)]
    shutil.rmtree(root / HOME.lstrip("/"), ignore_errors=True)
    subprocess.run([*enter, "userdel", "--force", USER], check=False, capture_output=True)
    subprocess.run([*enter, "useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
    checkout = root / CHECKOUT.lstrip("/")
    # A clone has only what is committed.
    clone = ["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(checkout)]
    subprocess.run(clone, check=True)
    subprocess.run([*enter, "chown", "-R", f"{USER}:{USER}", HOME], check=True)
    return f"{USER}:{USER}"


def copy_settings(root: Path) -> None:
    """Let the root file system reach package indexes as this machine does."""
    files = machine_files()
    (root / CERTIFICATES.relative_to("/")).write_bytes(files["CERTIFICATES"])
    (root / "etc/pip.conf").write_bytes(files["PIP_CONFIGURATION"])
    for name in ("etc/resolv.conf", "etc/hosts"):
        shutil.copy(f"/{name}", root / name)


def run_inside(root: Path, account: str, command: str) -> tuple[int, float]:
    """Run a shell command in the checkout; return its exit code and seconds."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", INSIDE, "bash"]
    inner = [f"{name}={value}" for name, value in environment().items()]
    shell = ["env", "-i", *inner, "bash", "-c", f"cd {CHECKOUT} && {command}"]
    around = {**os.environ, "ROOT": str(root), "ACCOUNT": account}
    started = time.monotonic()
    ended = subprocess.run([*words, *shell], env=around, stdin=subprocess.DEVNULL, check=False)
    return ended.returncode, time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands; return 0 if all of them succeeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", nargs="*", default=list(COMMANDS), help="default: README's two")
    parser.add_argument(
        "--release", action="append", help=f"of Debian; repeatable; default: {' '.join(RELEASES)}"
    )
    parser.add_argument(
        "--folder", type=Path, default=DEFAULT_FOLDER, help="where to put the roots"
    )
    parser.add_argument("--mirror", help="a Debian mirror, by default debootstrap's own")
    parser.add_argument("--keep", action="store_true", help="keep the user's home of the last run")
    options = parser.parse_args(arguments)
    check_requirements()
    report = []
    for release in options.release or RELEASES:
        root = options.folder.absolute() / release
        make_root(root, release, options.mirror)
        copy_settings(root)
        kept = options.keep and (root / CHECKOUT.lstrip("/")).is_dir()
        account = f"{USER}:{USER}" if kept else make_home(root)
        for command in options.command:
            print(f"\n{release} $ {command}", flush=True)
            code, seconds = run_inside(root, account, command)
            report.append((code, f"{seconds:6.0f} s, exit code {code}: {release}: {command}"))
    print("\n" + "\n".join(line for _, line in report))
    return int(any(code for code, _ in report))


if __name__ == "__main__":
    sys.exit(main())
