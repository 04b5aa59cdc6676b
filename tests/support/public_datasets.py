"""Miniatures of public data sets: names and structure as published, and how each is read.

An image is a few bytes: only its name and size are looked at.
"""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from support.cifar import VERSIONS
from support.parquet_files import hugging_face
from support.pictures import tar

WNIDS = ("n01440764", "n02102040")
Files = dict[str, bytes]


@dataclass(frozen=True)
class Miniature:
    """A data set, and what is right.

    Attributes:
        files: by their paths.
        train: the images of each training class.
        validation: the same of validation, by class; the number alone if a label file has them.
        left_out: the images left out by each rule.
        listed: the same in an archive, where the archive of a test split is listed.
        refused: what the refusal says, if it is refused; then its lines are written.
        lines: what the user writes in place of the refusal's lines, with files to add.
        warns: what the warning says.
    """

    files: Files
    train: Mapping[str, int]
    validation: Mapping[str, int] | int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    listed: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""
    lines: tuple[str, ...] = ()
    more: Mapping[str, bytes] = field(default_factory=dict)
    warns: str = ""


def image(path: str) -> bytes:
    """The bytes of an image: equal for equal names."""
    return path.rpartition("/")[2].encode()


def classes(
    folder: str, names: Iterable[str], count: int = 3, prefix: str = "", suffix: str = ".jpg"
) -> Files:
    """Class folders."""
    paths = (f"{folder}/{name}/{prefix}{n}{suffix}" for name in names for n in range(count))
    return {path: image(path) for path in paths}


def images(*paths: str) -> Files:
    """Images at some paths."""
    return {path: image(path) for path in paths}


def flat(pattern: str, count: int) -> Files:
    """Images whose paths have a number."""
    return images(*(pattern.format(number) for number in range(count)))


def shard(split: str, number: int) -> bytes:
    """A shard of WebDataset with three images."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for n in range(3):
            members = (
                ("cls", str(n % 2).encode()),
                ("jpg", b"x"),
                ("json", json.dumps({}).encode()),
            )
            for suffix, content in members:
                info = tarfile.TarInfo(f"{split}{number}{n}.{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


BOTH = dict.fromkeys(WNIDS, 3)
AB = {"a": 3, "b": 3}
TWO = {"0": 3, "1": 3}
BIRDS = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
_BIRDS = [f"{c}/{c}_{i}.jpg" for c in BIRDS for i in range(4)]
_FOOD = [f"{c}/{i}" for c in ("apple_pie", "beignets") for i in range(4)]

MINIATURES: dict[str, Miniature] = {
    "Imagenette": Miniature(
        {
            **classes("imagenette2/train", WNIDS, prefix="t", suffix=".JPEG"),
            **classes("imagenette2/val", WNIDS, prefix="v", suffix=".JPEG"),
            "imagenette2/noisy_imagenette.csv": b"path,noisy_labels_0,is_valid\n"
            + "".join(
                f"{s}/{c}/{s[0]}{i}.JPEG,{c},{s == 'val'}\n"
                for s in ("train", "val") for c in WNIDS for i in range(3)
            ).encode(),
        },
        BOTH, BOTH,
    ),
    "Kaggle CLS-LOC": Miniature(
        {
            **classes("ILSVRC/Data/CLS-LOC/train", WNIDS, suffix=".JPEG"),
            **flat("ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_{}.JPEG", 4),
            **flat("ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_{}.JPEG", 4),
            "LOC_val_solution.csv": b"ImageId,PredictionString\n" + b"".join(
                b"ILSVRC2012_val_%d,%s 1 2 3 4 \n" % (i, WNIDS[i % 2].encode()) for i in range(4)
            ),
        },
        BOTH, 4, {"test split": 4},
    ),
    "Tiny ImageNet": Miniature(
        {
            **{
                path: image(path) for c in WNIDS for i in range(3)
                for path in [f"tiny-imagenet-200/train/{c}/images/{c}_{i}.JPEG"]
            },
            **{
                f"tiny-imagenet-200/train/{c}/{c}_boxes.txt": f"{c}_0.JPEG\t0\t0\t9\t9\n".encode()
                for c in WNIDS
            },
            **flat("tiny-imagenet-200/val/images/val_{}.JPEG", 4),
            **flat("tiny-imagenet-200/test/images/test_{}.JPEG", 4),
            "tiny-imagenet-200/val/val_annotations.txt": b"".join(
                b"val_%d.JPEG\t%s\t0\t0\t3\t3\n" % (i, WNIDS[i % 2].encode()) for i in range(4)
            ),
        },
        BOTH, 4, {"test split": 4},
    ),
    "imagenet100 of Kaggle": Miniature(
        {
            **classes("train.X1", WNIDS), **classes("train.X2", ("n03",)),
            **classes("val.X", (*WNIDS, "n03"), prefix="v"), "Labels.json": b"{}",
        },
        {**BOTH, "n03": 3}, {**BOTH, "n03": 3},
    ),
    "Places365 standard": Miniature(
        {
            **classes("places365_standard/train", ("airfield", "abbey"), prefix="t"),
            **classes("places365_standard/val", ("airfield", "abbey"), prefix="v"),
        },
        {"airfield": 3, "abbey": 3}, {"airfield": 3, "abbey": 3},
    ),
    "Places365 by letters": Miniature(
        {
            **classes("data_256/a", ("abbey", "apartment_building/outdoor")),
            **classes("data_256/b", ("bar",)),
        },
        {"abbey": 3, "apartment_building": 3, "bar": 3}, refused="first letters",
    ),
    "iNaturalist 2019": Miniature(
        {
            **classes("train_val2019/Birds", ("0", "1")), **classes("train_val2019/Fungi", ("2",)),
            "train2019.json": b"{}",
        },
        {"Birds": 6, "Fungi": 3}, warns="their images lie in 3 folders below: --class-level 2",
    ),
    "iNaturalist 2021": Miniature(
        {**classes("train", ("00000_A", "00001_P")), **classes("val", ("00000_A", "00001_P"))},
        {"00000_A": 3, "00001_P": 3}, {"00000_A": 3, "00001_P": 3},
    ),
    "Food-101": Miniature(
        {
            **images(*(f"food-101/images/{one}.jpg" for one in _FOOD)),
            "food-101/meta/train.txt": "".join(f"{o}\n" for o in _FOOD if o[-1] != "3").encode(),
            "food-101/meta/test.txt": "".join(f"{o}\n" for o in _FOOD if o[-1] == "3").encode(),
        },
        {"apple_pie": 4, "beignets": 4},
    ),
    "Food-101 with its own split": Miniature(
        {
            **images(*(f"food-101/images/{one}.jpg" for one in _FOOD)),
            "food-101/meta/train.txt": "".join(f"{o}\n" for o in _FOOD if o[-1] != "3").encode(),
            "food-101/meta/test.txt": "".join(f"{o}\n" for o in _FOOD if o[-1] == "3").encode(),
        },
        {"apple_pie": 3, "beignets": 3}, {"apple_pie": 1, "beignets": 1},
        lines=("--split-train-list", "meta/train.txt", "--split-validation-list", "meta/test.txt"),
    ),
    "CUB-200": Miniature(
        {
            **images(*(f"CUB_200_2011/images/{one}" for one in _BIRDS)),
            "CUB_200_2011/images.txt": "".join(
                f"{k} {b}\n" for k, b in enumerate(_BIRDS, 1)
            ).encode(),
        },
        dict.fromkeys(BIRDS, 4),
    ),
    "CUB-200 with its own split": Miniature(
        {
            **images(*(f"CUB_200_2011/images/{one}" for one in _BIRDS)),
            "CUB_200_2011/images.txt": "".join(
                f"{k} {b}\n" for k, b in enumerate(_BIRDS, 1)
            ).encode(),
            "CUB_200_2011/train_test_split.txt": "".join(
                f"{k} {int(k % 4 != 0)}\n" for k, _ in enumerate(_BIRDS, 1)
            ).encode(),
        },
        dict.fromkeys(BIRDS, 3), dict.fromkeys(BIRDS, 1),
        lines=("--split-table", "train_test_split.txt", "--split-ids", "images.txt"),
    ),
    "Stanford Cars": Miniature(
        {
            **flat("cars_train/0000{}.jpg", 4), **flat("cars_test/0000{}.jpg", 4),
            "devkit/cars_train_annos.mat": b"x",
        },
        {"1": 2, "2": 2}, 0, {"test split": 4}, refused="cars_train_annos.mat may hold labels",
        lines=("--labels-csv", "labels.csv", "--split-train", "cars_train/**"),
        more={"labels.csv": b"fname,class\n" + b"".join(
            b"cars_train/0000%d.jpg,%d\n" % (i, 1 + i % 2) for i in range(4)
        )},
    ),
    "Oxford Flowers": Miniature(
        {**flat("jpg/image_0000{}.jpg", 4), "imagelabels.mat": b"x"},
        {"1": 2, "2": 2}, refused="imagelabels.mat may hold labels",
        lines=("--labels-csv", "labels.csv"),
        more={"labels.csv": b"file_name,label\n" + b"".join(
            b"image_0000%d.jpg,%d\n" % (i, 1 + i % 2) for i in range(4)
        )},
    ),
    "Oxford Pets": Miniature(
        {
            **flat("images/Abyssinian_{}.jpg", 3), **flat("images/beagle_{}.jpg", 3),
            **flat("annotations/trimaps/Abyssinian_{}.png", 3),
            **flat("annotations/trimaps/beagle_{}.png", 3),
        },
        {"Abyssinian": 3, "beagle": 3}, refused="annotations, images are no classes",
        lines=("--split-train", "images/**", "--labels-pattern", r"^(.+)_\d+\."),
    ),
    "GTSRB": Miniature(
        {
            **classes("GTSRB/Final_Training/Images", ("00000", "00001"), suffix=".ppm"),
            **{
                f"GTSRB/Final_Training/Images/{c}/GT-{c}.csv": (
                    "Filename;Width;ClassId\n" + "".join(f"{i}.ppm;29;{int(c)}\n" for i in range(3))
                ).encode()
                for c in ("00000", "00001")
            },
            **flat("GTSRB/Final_Test/Images/{}.ppm", 3),
        },
        {"00000": 3, "00001": 3}, 0, {"test split": 3},
    ),
    "GTSRB of Kaggle": Miniature(
        {
            **classes("Train", ("0", "1"), suffix=".png"), **flat("Test/{}.png", 3),
            "Meta/0.png": b"", "Meta/1.png": b"",
            "Test.csv": b"Width,Height,Roi.X1,ClassId,Path\n" + b"".join(
                b"29,30,5,%d,Test/%d.png\n" % (i % 2, i) for i in range(3)
            ),
        },
        TWO, {"0": 2, "1": 1}, refused="2 of 11 images would be left out: 2 beside the splits",
    ),
    "Dogs vs. Cats": Miniature(
        {**flat("train/cat.{}.jpg", 4), **flat("train/dog.{}.jpg", 4), **flat("test1/{}.jpg", 3)},
        {"cat": 4, "dog": 4}, 0, {"test split": 3}, refused="or label them by their names",
        lines=("--labels-pattern", r"^(cat|dog)\.", "--split-train", "train/**"),
    ),
    "Intel scenes": Miniature(
        {
            **classes("seg_train/seg_train", ("buildings", "sea"), prefix="t"),
            **classes("seg_test/seg_test", ("buildings", "sea"), prefix="v"),
            **flat("seg_pred/seg_pred/{}.jpg", 3),
        },
        {"buildings": 3, "sea": 3}, {"buildings": 3, "sea": 3}, {"no labels": 3},
    ),
    "Chest X-ray": Miniature(
        {
            path: content
            for top in ("chest_xray", "chest_xray/chest_xray", "chest_xray/__MACOSX/chest_xray")
            for split in ("train", "val", "test")
            for path, content in classes(f"{top}/{split}", ("N", "P"), prefix=split).items()
        },
        {"N": 3, "P": 3}, {"N": 3, "P": 3},
        {"test split": 6, "equal copies": 18, "hidden folders": 1},
    ),
    "EuroSAT": Miniature(classes("2750", ("Crop", "Forest")), {"Crop": 3, "Forest": 3}),
    "EuroSAT of Kaggle": Miniature(
        {
            **classes("EuroSAT", ("Crop", "Forest")),
            **classes("EuroSATallBands", ("Crop", "Forest")),
        },
        {"Crop": 3, "Forest": 3}, 0, {"not in splits": 6}, refused="both hold Crop, Forest",
    ),
    "PlantVillage": Miniature(
        {
            path: content
            for variant in ("color", "grayscale", "segmented")
            for path, content in classes(
                f"plantvillage dataset/{variant}", ("Apple___Black_rot", "Corn_(maize)___healthy"),
                suffix=".JPG",
            ).items()
        },
        {"Apple___Black_rot": 3, "Corn_(maize)___healthy": 3}, 0, {"not in splits": 12},
        refused="plantvillage dataset/color and plantvillage dataset/grayscale both hold",
    ),
    "fruits-360": Miniature(
        {
            **classes("fruits-360/Training", ("Apple Braeburn 1", "Banana 1"), prefix="t"),
            **classes("fruits-360/Test", ("Apple Braeburn 1", "Banana 1"), prefix="v"),
            **flat("fruits-360/test-multiple_fruits/{}.jpg", 3),
            **flat("fruits-360/papers/{}.jpg", 3),
        },
        {"Apple Braeburn 1": 3, "Banana 1": 3}, {"Apple Braeburn 1": 3, "Banana 1": 3},
        {"not in splits": 6}, refused="6 of 18 images would be left out: 6 beside the splits",
    ),
    "Caltech-101": Miniature(
        classes("101_ObjectCategories", ("BACKGROUND_Google", "accordion")),
        {"BACKGROUND_Google": 3, "accordion": 3},
    ),
    "CIFAR as folders": Miniature(
        {**classes("train", ("airplane", "cat")), **classes("test", ("airplane", "cat"))},
        {"airplane": 3, "cat": 3}, {"airplane": 3, "cat": 3},
    ),
    "imagefolder with metadata.csv": Miniature(
        {
            **flat("train/{}.jpg", 4),
            "train/metadata.csv": b"file_name,label\n0.jpg,c\n1.jpg,d\n2.jpg,c\n3.jpg,d\n",
        },
        {"c": 2, "d": 2},
    ),
    "imagefolder with metadata.jsonl": Miniature(
        {
            **flat("train/{}.jpg", 4), **flat("test/{}.jpg", 2),
            "train/metadata.jsonl": b"".join(
                b'{"file_name": "%d.jpg", "label": "%s"}\n' % (i, b"cd"[i % 2 :][:1])
                for i in range(4)
            ),
        },
        {"c": 2, "d": 2}, 0, {"test split": 2},
    ),
    "HAM10000": Miniature(
        {
            **flat("HAM10000_images_part_1/ISIC_{}.jpg", 4),
            **flat("HAM10000_images_part_2/ISIC_1{}.jpg", 4),
            "HAM10000_metadata.csv": b"lesion_id,image_id,dx,dx_type\n" + b"".join(
                b"HAM_%d,ISIC_%s,%s,histo\n" % (n, i, (b"nv", b"mel")[n % 2])
                for n, i in enumerate((b"0", b"1", b"2", b"3", b"10", b"11", b"12", b"13"))
            ),
        },
        {"nv": 4, "mel": 4}, refused="lesion_id, image_id, dx, dx_type",
        lines=("--labels-csv", "HAM10000_metadata.csv", "--labels-class-column", "dx"),
    ),
    "flowers in flowers": Miniature(
        {
            path: content
            for top in ("flowers", "flowers/flowers")
            for path, content in classes(top, ("daisy", "rose")).items()
        },
        {"daisy": 3, "rose": 3}, 0, {"equal copies": 6},
    ),
    "COVID with masks": Miniature(
        {
            path: content
            for name in ("COVID", "Normal")
            for path, content in classes(name, ("images", "masks")).items()
        },
        {"COVID": 3, "Normal": 3}, 0, {"not in splits": 6},
        refused="COVID and Normal both hold images, masks",
        lines=("--split-train", "*/images/**", "--class-level", "1"),
    ),
    "classes with the words of splits": Miniature(
        classes("words", ("dev", "prod", "test")), dict.fromkeys(("dev", "prod", "test"), 3),
    ),
    "imagenetv2": Miniature(
        classes("imagenetv2-matched-frequency-val", ("0", "1")), TWO,
    ),
    "class folders": Miniature(classes("x", ("a", "b")), AB),
}  # fmt: skip

CIFAR_TRAIN = {"airplane": 6, "ship": 2, "truck": 7}
CIFAR_TEST = {"airplane": 1, "ship": 2, "truck": 1}
OF_FILES: dict[str, Miniature] = {
    **{
        f"CIFAR, {name}": Miniature(
            {f"{name}/{path}": content for path, content in files.items()},
            CIFAR_TRAIN, CIFAR_TEST,
        )
        for name, files in VERSIONS.items()
    },
    "imagenet-1k of Hugging Face": Miniature(
        {
            **{
                f"data/{split}-0000{n}-of-00002.parquet": hugging_face(
                    [(WNIDS[n], b"x"), (WNIDS[0], b"x")], WNIDS
                )
                for split in ("train", "validation") for n in range(2)
            },
            "data/test-00000-of-00001.parquet": hugging_face([("", b"x")], WNIDS, labels=[-1]),
            "README.md": b"", "classes.py": b"",
        },
        {WNIDS[0]: 3, WNIDS[1]: 1}, {WNIDS[0]: 3, WNIDS[1]: 1},
        {"files and folders of a test split, not listed": 1},
    ),
}  # fmt: skip
"""Data sets whose files hold many images each."""

ARCHIVES: dict[str, Miniature] = {
    "ILSVRC2012 with devkit": Miniature(
        {
            "ILSVRC2012_img_train.tar": tar(
                {f"{name}.tar": tar({f"{name}_{n}.JPEG": b"x" for n in range(3)}) for name in WNIDS}
            ),
            "ILSVRC2012_img_val.tar": tar({f"ILSVRC2012_val_{n}.JPEG": b"x" for n in range(4)}),
            "ILSVRC2012_img_test.tar": tar({f"ILSVRC2012_test_{n}.JPEG": b"x" for n in range(5)}),
            "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt": b"1\n2\n1\n2\n",
            "ILSVRC2012_devkit_t12.tar.gz": b"x",
        },
        BOTH,
        4,
        {"files and folders of a test split, not listed": 1},
        {"test split": 5},
    ),
    "fall11": Miniature(
        {f"{name}.tar": tar({f"{name}_{n}.JPEG": b"x" for n in range(3)}) for name in WNIDS}, BOTH
    ),
    "imagenet1k-wds": Miniature(
        {
            f"imagenet1k-{split}-{n:04}.tar": shard(split, n)
            for split in ("train", "validation")
            for n in range(2)
        },
        {"0": 4, "1": 2},
        {"0": 4, "1": 2},
    ),
    "shards in folders of splits": Miniature(
        {f"{split}/{n:04}.tar": shard(split, n) for split in ("train", "val") for n in range(2)},
        {"0": 4, "1": 2},
        {"0": 4, "1": 2},
    ),
    "imagenet-dev": Miniature(
        {f"imagenet-dev-{split}-0.tar": shard(split, 0) for split in ("train", "val")},
        {"0": 2, "1": 1},
        {"0": 2, "1": 1},
    ),
    "a shard of another name": Miniature(
        {"x-train-0.tar": shard("t", 0), "x-extra-0.tar": shard("e", 0)},
        {"0": 2, "1": 1},
        refused="x-train-0.tar names a split and x-extra-0.tar none",
    ),
    "archives of class folders": Miniature(
        {f"part{n}.tar": tar(classes("x", ("a", "b"), prefix=str(n))) for n in range(2)},
        {"a": 6, "b": 6},
        refused="part0.tar/x and part1.tar/x both hold a, b",
        lines=("--class-level", "3"),
    ),
}
"""Data sets of archives: as a folder of them, or as an archive of them."""
