"""docs/jobs.md: its commands are understood, and its Role is what the clients' tests have."""

import re

import pytest
import yaml

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.main import build_parser
from support.client_jobs import RIGHTS
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "jobs.md").read_text()
COMMANDS = re.findall(r"^imagenetctl (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_understood(command: str) -> None:
    assert build_parser().parse_args(command.split()).namespace == "vision"


def test_every_verb_is_shown() -> None:
    verbs = {"submit", "list", "status", "logs", "wait", "suspend", "resume", "delete", "events"}
    others = {"report", "dashboard", "upload", "download"}
    assert {command.split()[0] for command in COMMANDS} == verbs | others


def test_the_role_is_what_the_tests_grant_a_client() -> None:
    role = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])
    granted = {
        (group, resource): frozenset(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == RIGHTS


def test_the_exit_codes_are_those_of_the_program() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert listed == {
        exit_codes.SUCCESS,
        exit_codes.FAILED,
        exit_codes.TIME_PASSED,
        exit_codes.NOT_FOUND,
    }
