"""A dataset of Hugging Face at one commit: its files and their addresses, by huggingface_hub.

The package asks for the list of files. The files are read through `clients.http`, by ranges.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.clients.http import Address, Token
from imagenet_workloads.errors import InputError, WorkloadError

TOKEN = "HF_TOKEN"
"""The key of the Secret."""

_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Repository:
    """A dataset at a commit; without an endpoint on huggingface.co, or at $HF_ENDPOINT."""

    dataset: str
    commit: str
    endpoint: str | None = None

    def address(self, name: str) -> Address:
        from huggingface_hub import hf_hub_url

        url = hf_hub_url(
            self.dataset, name, repo_type="dataset", revision=self.commit, endpoint=self.endpoint
        )
        return Address(url)


def token() -> Token | None:
    """The token of the Secret; None without a Secret. InputError if the Secret lacks the key."""
    credentials = Credentials()
    return Token(credentials.read(TOKEN)) if credentials.are_given else None


def find(
    dataset: str,
    revision: str | None,
    endpoint: str | None,
    login: Token | None,
    *,
    with_checksums: bool = False,
) -> tuple[Repository, Mapping[str, str]]:
    """Ask for the commit of a revision (a branch, tag or commit), and for its files.

    Args:
        dataset: the name of the dataset.
        revision: None for the default branch.
        endpoint: the URL of the server; None for huggingface.co, or $HF_ENDPOINT.
        login: the token; None for a public dataset.
        with_checksums: whether to ask for the checksums too, which is more work for the server.

    Returns:
        The commit, and its sorted paths with their checksums as `sha256:…`; empty if unknown.

    Raises:
        InputError: there is no such dataset or revision, or the token is refused.
        WorkloadError: the server cannot be reached.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise InputError(
            "the package huggingface_hub is missing; type: pip install huggingface_hub httpx2"
        ) from None
    # Without a Secret, no token of this machine is sent either.
    api = HfApi(endpoint=endpoint, token=False if login is None else login.value)
    with _explained(dataset, revision):
        found = api.dataset_info(
            dataset, revision=revision, timeout=_TIMEOUT_SECONDS, files_metadata=with_checksums
        )
    if found.sha is None:
        raise InputError(f"{dataset}: the server gives no commit of the dataset; check endpoint")
    files = {
        # The hub knows the checksum of a file that Git LFS stores.
        one.rfilename: "" if one.lfs is None else f"sha256:{one.lfs.sha256}"
        for one in sorted(found.siblings or (), key=lambda one: one.rfilename)
    }
    return Repository(dataset, found.sha, endpoint), files


@contextmanager
def _explained(dataset: str, revision: str | None) -> Iterator[None]:
    """Explain the errors of the package; its own hold addresses and answers."""
    import httpx2
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except HFValidationError:
        raise InputError(f"{dataset}: is no name of a dataset; write OWNER/NAME") from None
    except GatedRepoError:
        raise InputError(
            f"{dataset}: is gated; ask for access on its page, and name a Secret with the key "
            f"{TOKEN} in secretName"
        ) from None
    except RevisionNotFoundError:
        raise InputError(f"{dataset}: has no revision {revision}; check revision") from None
    except RepositoryNotFoundError:
        raise InputError(
            f"{dataset}: there is no such dataset, or it is private; check dataset, and the token "
            "in the Secret"
        ) from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise InputError(
                f"{dataset}: {status}: the server refuses the token; check {TOKEN} in the Secret"
            ) from None
        if status in (408, 429) or status >= 500:
            raise WorkloadError(f"{dataset}: the server answers {status}") from None
        raise InputError(f"{dataset}: {status}: the server does not answer this request") from None
    except httpx2.HTTPError as error:
        why = type(error).__name__
        raise WorkloadError(f"{dataset}: the server cannot be reached ({why})") from None
