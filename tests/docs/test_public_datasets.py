"""The table of public data sets in docs/sources.md says what their miniatures show."""

import re
from pathlib import Path

from support.public_datasets import ARCHIVES, MINIATURES, OF_FILES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sources.md"
ALL = MINIATURES | OF_FILES | ARCHIVES
# What the page calls data sets → their miniatures.
ROWS = {
    "Imagenette, Places365, iNaturalist 2021": "Imagenette|Places365 standard|iNaturalist 2021",
    "Kaggle's CLS-LOC, Tiny ImageNet": "Kaggle CLS-LOC|Tiny ImageNet",
    "ImageNet-100 of Kaggle": "imagenet100 of Kaggle",
    "imagenet1k-wds, imagenet-1k of Hugging Face": "imagenet1k-wds|imagenet-1k of Hugging Face",
    "ILSVRC2012 with its development kit": "ILSVRC2012 with devkit",
    "fall11": "fall11",
    "CIFAR-10 and CIFAR-100, binary and Python version": "CIFAR, .*",
    "Intel scenes, fruits-360, CIFAR as folders": "Intel scenes|fruits-360|CIFAR as folders",
    "Chest X-ray": "Chest X-ray",
    "GTSRB": "GTSRB|GTSRB of Kaggle",
    "Food-101, CUB-200": "Food-101.*|CUB-200.*",
    "Caltech-101, EuroSAT": "Caltech-101|EuroSAT",
    "iNaturalist 2019": "iNaturalist 2019",
    "Places365 by letters": "Places365 by letters",
    "PlantVillage, EuroSAT of Kaggle": "PlantVillage|EuroSAT of Kaggle",
    "Stanford Cars, Oxford Flowers": "Stanford Cars|Oxford Flowers",
    "Oxford Pets, Dogs vs. Cats": "Oxford Pets|Dogs vs. Cats",
}


def test_the_table_says_what_is_refused_and_by_which_field_it_is_read() -> None:
    section = PAGE.read_text().partition("| Data set | Reading |\n|---|---|\n")[2]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", section.partition("\n\n")[0], re.MULTILINE))
    assert rows.keys() == ROWS.keys()
    for name, reading in rows.items():
        found = [one for key, one in ALL.items() if re.fullmatch(ROWS[name], key)]
        assert found, name
        needs_a_line = any(one.refused or one.lines for one in found)
        names_a_field = re.search(r"refused|`(?:splits|classLevel|labels)", reading) is not None
        assert names_a_field == (needs_a_line or any(one.warns for one in found)), name
        leaves_out = any(one.left_out or one.listed for one in found)
        assert leaves_out or "left out" not in reading, name
