"""The source `http`: raw archives on a server, read in place by ranges, or from a cache."""

from __future__ import annotations

from typing import Annotated

from annotated_types import MaxLen, MinLen

from imagenet_spec.names import SERVER
from imagenet_spec.resource.base import DefaultWhenRead, Model, Unit
from imagenet_spec.resource.fields import (
    URL_PATH,
    URL_RULE,
    Checksum,
    FileName,
    LongCount,
    PositiveInt,
    RelativePath,
    SecretKey,
    SecretName,
    ServedName,
    Text,
    all_differ,
    matches,
    stays_below,
)
from imagenet_spec.resource.sources.fields import RemoteSource, needs_volume
from imagenet_spec.rules import Rule


class ServedFile(Model):
    """A file on the server."""

    name: FileName
    """The name by which other fields refer to the file. A label file has it too: `meta.mat` of the
    development kit must be called so."""

    url: Text
    """The http or https URL, without user and query."""

    size_bytes: Annotated[LongCount, Unit("bytes")] | None = None
    """The size of the file. If the server's file has another size, the job fails."""

    checksum: Checksum | None = None
    """The checksum of a label file, or of any file with `cache`. Without a cache, an archive is not
    read as a whole: its images are checked when they are decoded."""

    query_key: SecretKey | None = None
    """The key of the Secret with the query of the URL, for a signed link. The query is neither in
    the job nor in its pods' manifests."""

    rules = (URL_RULE,)


def _files_cel(source: str) -> str:
    """Return the files of a source as CEL; the API server does not write their default."""
    return f"(has({source}.files) ? {source}.files : [])"


def _names_a_file(field: str) -> Rule:
    return Rule(
        cel=(
            f"!has(self.source.http) || !has(self.validation) || !has(self.validation.{field})"
            f" || {_files_cel('self.source.http')}.exists(f, f.name == self.validation.{field})"
        ),
        message="must be the name of one of the source's files",
        field=f"validation.{field}",
        hint="write one of the names in source.http.files",
    )


class ServedFolder(Model):
    """Archives below one URL: one for each class, or shards of WebDataset."""

    url: Text
    """The http or https URL of the folder, without user and query. It ends with a slash."""

    names: Annotated[tuple[ServedName, ...], MinLen(1), MaxLen(10_000)]
    """The names of the archives, percent-encoded: all tars or all zips. The name of a class's
    archive without its suffix is the class. A name may have a range of numbers, as in
    ``train-{000..127}.tar``; 100,000 archives at most."""

    rules = (
        matches(
            "url",
            f"^{SERVER}/({URL_PATH}*/)?$",
            message="must be an http or https URL without user and query, with a slash at its end",
            hint="write https://HOST/PATH/",
            is_optional=False,
        ),
    )


def _goes_without_folder(field: str) -> Rule:
    return Rule(
        cel=f"!has(self.folder) || !has(self.{field})",
        message="does not go with folder",
        field=field,
        hint="remove it: the archives of the folder have the classes",
    )


def _is_one_of_the_files(field: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || {_files_cel('self')}.exists(f, f.name == self.{field})",
        message="must be the name of one of the files",
        field=field,
        hint="write one of the names in files",
    )


class HttpSource(RemoteSource):
    """Archives on a server. They are read in place, by ranges of bytes, or stored in a `cache`."""

    files: Annotated[tuple[ServedFile, ...], MaxLen(16), DefaultWhenRead()] = ()
    """The files: the archive with the classes, and those that `classWords`, `boundingBoxes` and
    `validation` name. All others are read too, as files beside the labels."""

    folder: ServedFolder | None = None
    """Many archives below one URL, in place of one archive with the classes."""

    archive: FileName | None = None
    """The name of the file with the classes: a tar or zip of class archives, or of class folders,
    or a Parquet file. Absent: the first file."""

    path_in_archive: RelativePath | None = None
    """The folder or archive in the archive that holds the classes, such as ``train``; by default
    the folder that holds all of them."""

    class_words: FileName | None = None
    """The name of the file with words for the classes, such as ``tench`` for n01440764:
    LOC_synset_mapping.txt, words.txt, meta.mat, imagenet_class_index.json, or a JSON object."""

    bounding_boxes: Annotated[tuple[FileName, ...], MinLen(1), MaxLen(8)] | None = None
    """The names of the tars with the annotations of the images, in the XML of Pascal VOC:
    ILSVRC2012_bbox_train_v2.tar.gz and ILSVRC2012_bbox_val_v3.tgz. Each image's boxes are in the
    dataset."""

    read_annotations: Annotated[bool, DefaultWhenRead()] = False
    """Whether the bounding boxes beside the images are read. The source must be a tree as
    Kaggle's, with ``Annotations/CLS-LOC`` beside ``Data/CLS-LOC``."""

    secret_name: SecretName | None = None
    """A Secret with the keys ``username`` and ``password``, and with the keys that `queryKey`
    names. A Secret with such a key needs no login."""

    max_requests: PositiveInt | None = None
    """The most requests that listing the images and reading them may take. It is compared with an
    estimate before an archive is listed, and with the plan before any image is packed. Absent:
    4,000,000. A `cache` has no limit."""

    rules = (
        stays_below("pathInArchive"),
        Rule(
            cel="has(self.folder) || has(self.files) && self.files.size() > 0",
            message="files or a folder must be given",
            field="files",
            hint="write [{name: …, url: …}]",
        ),
        _goes_without_folder("archive"),
        _goes_without_folder("pathInArchive"),
        Rule(
            cel="!has(self.files) || self.files.all(f, self.files.exists_one(g, g.name == f.name))",
            message="must have different names",
            field="files",
            hint="give each file another name",
        ),
        _is_one_of_the_files("archive"),
        _is_one_of_the_files("classWords"),
        Rule(
            cel=(
                "!has(self.boundingBoxes) || self.boundingBoxes.all(b,"
                f" {_files_cel('self')}.exists(f, f.name == b))"
            ),
            message="must be names of the files",
            field="boundingBoxes",
            hint="write names in files",
        ),
        all_differ("boundingBoxes"),
        Rule(
            cel=f"has(self.secretName) || !{_files_cel('self')}.exists(f, has(f.queryKey))",
            message="must be given: a file has a queryKey",
            field="secretName",
            hint="write the name of the Secret with this key",
        ),
    )

    dataset_rules = (
        needs_volume("http", "200Gi"),
        _names_a_file("path"),
        _names_a_file("labels"),
    )

    @property
    def secret(self) -> str | None:
        return self.secret_name
