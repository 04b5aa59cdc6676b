"""Downloads of Kaggle: the addresses of competitions and datasets, by kagglesdk.

The package knows the API. The requests are sent by `clients.http`, because the client of the
package takes keys from the home folder, and asks no server but its own. Kaggle answers a download
with a redirect to a signed link of another host.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.clients.http import Address, HttpClient, Login, Token
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

TOKEN = "KAGGLE_API_TOKEN"
USERNAME, KEY = "username", "key"
"""The keys of the Secret: a token, or the two of the file kaggle.json."""

_ENDPOINT = "https://www.kaggle.com"
# The answer describes each file of a dataset.
_LONGEST_DESCRIPTION = 64 << 20
_REFUSED = f"Kaggle refuses the key; check {TOKEN}, or {USERNAME} and {KEY}, in the Secret"


@dataclass(frozen=True)
class Download:
    """All files of a competition or a dataset as one zip, or one file of it.

    Attributes:
        competition: its name; empty for a dataset.
        dataset: its name as OWNER/NAME; empty for a competition.
        version: of the dataset; None for the newest.
        file: its path; None for the zip of all.
        endpoint: the URL of the server; None for www.kaggle.com.
    """

    competition: str = ""
    dataset: str = ""
    version: int | None = None
    file: str | None = None
    endpoint: str | None = None

    @property
    def name(self) -> str:
        whole = f"{(self.competition or self.dataset).rpartition('/')[2]}.zip"
        return whole if self.file is None else self.file.rpartition("/")[2]

    @property
    def server(self) -> str:
        return self.endpoint or _ENDPOINT

    @property
    def address(self) -> Address:
        """The address of the download, which has no signature."""
        if self.competition:
            types, _ = _types()
            wanted = types.ApiDownloadDataFilesRequest()
            if self.file is not None:
                wanted = types.ApiDownloadDataFileRequest()
                wanted.file_name = self.file
            wanted.competition_name = self.competition
            return Address(self.server + quote(wanted.endpoint()))
        request = _of_dataset("ApiDownloadDatasetRequest", self.dataset)
        query = {"dataset_version_number": self.version, "file_name": self.file}
        given = {name: value for name, value in query.items() if value is not None}
        return Address(self.server + quote(request.endpoint()), urlencode(given, quote_via=quote))

    @property
    def explained(self) -> Mapping[int, str]:
        if self.competition:
            rules = f"{self.server}/competitions/{self.competition}/rules"
            forbidden = f"accept the rules of the competition on {rules}, as the user of the key"
            missing = "there is no such competition or file; check competition and file"
        else:
            forbidden = "the user of the key may not read the dataset; ask for access on its page"
            missing = "there is no such dataset or file; check dataset, version and file"
        return {401: _REFUSED, 403: forbidden, 404: missing}


def connect(download: Download) -> HttpClient:
    """Return a client with the login of the Secret; without a Secret, it has no login."""
    credentials = Credentials()
    login: Login | Token | None = None
    if credentials.has(USERNAME):
        login = Login(credentials.read(USERNAME), credentials.read(KEY))
    elif credentials.are_given:
        login = Token(credentials.read(TOKEN))
    return HttpClient(login, explained=download.explained)


def at_version(download: Download, client: HttpClient) -> Download:
    """Ask for the newest version of a dataset, unless one is given. A competition has none.

    InputError if the server refuses, or knows no such dataset.
    """
    if not download.dataset or download.version is not None:
        return download
    path = quote(_of_dataset("ApiGetDatasetRequest", download.dataset).endpoint())
    address = Address(download.server + path)
    answer = client.get(address, HTTPStatus.OK, _LONGEST_DESCRIPTION, {})
    found = Fields.parse(answer.body.decode(errors="replace"), address.url)
    return replace(download, version=found.integer("currentVersionNumber", minimum=1))


def _of_dataset(kind: str, dataset: str) -> Any:
    _, types = _types()
    request = getattr(types, kind)()
    request.owner_slug, _, request.dataset_slug = dataset.partition("/")
    return request


def _types() -> tuple[Any, Any]:
    try:
        from kagglesdk.competitions.types import competition_api_service
        from kagglesdk.datasets.types import dataset_api_service
    except ImportError:
        raise InputError(
            "the package kagglesdk is missing; type: pip install 'kagglesdk<0.2'"
        ) from None
    return competition_api_service, dataset_api_service
