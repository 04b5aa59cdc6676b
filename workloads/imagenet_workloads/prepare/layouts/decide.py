"""Decides by a survey which images have which class and split, or refuses with the lines to write.

A layout fits if it gives each image that no named rule leaves out a class and a split. The one of
the highest rank is taken: labels beside the images (WebDataset), a table of labels, a tree with
splits, class folders. What the user wrote ends the judging of that part.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import (
    TEST,
    TRAINING,
    UNLABELLED,
    VALIDATION,
    join,
    splits,
    words,
)
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.layouts import devkit, tables
from imagenet_workloads.prepare.layouts.choice import Choice, count, pattern_line, split_lines
from imagenet_workloads.prepare.layouts.splits import NOT_LISTED, Selection
from imagenet_workloads.prepare.layouts.survey import Node, Survey
from imagenet_workloads.prepare.source import class_name_in
from imagenet_workloads.prepare.stores.blob import LabelFile, readable

# How the images of a split get their classes.
FOLDERS, ARCHIVES, SAMPLES, TABLE, PATTERN, FLAT = (
    "folders", "archives", "samples", "table", "pattern", "flat",
)  # fmt: skip
_ARCHIVE_SUFFIXES = (".tar", ".zip")
# The largest share of the images that rules may leave out which nobody wrote.
_MOST_LEFT_OUT = 0.01


class Rule(NamedTuple):
    """Why images are left out."""

    name: str  # in the result and in messages
    is_counted: bool = False  # whether the images count for the 1 % that rules may leave out


TEST_SPLIT = Rule("test split")
UNLISTED = Rule(NOT_LISTED)
NO_LABELS = Rule("no labels")
COPY = Rule("equal copies")
HIDDEN = Rule("hidden folders")
NOT_CHOSEN = Rule("not in splits")
OTHER_VALIDATION = Rule("other validation images are given")
BESIDE_SPLITS = Rule("beside the splits", is_counted=True)
BESIDE_CLASSES = Rule("beside the class folders", is_counted=True)
BESIDE_ARCHIVES = Rule("beside the archives", is_counted=True)


@dataclass(frozen=True)
class Part:
    """The images of one split, and how they get their classes."""

    by: str  # FOLDERS, ARCHIVES, SAMPLES, TABLE, PATTERN or FLAT
    roots: tuple[str, ...]  # the folders that hold them
    level: int = 1  # the level of the class folders below a root
    labels: LabelFile | None = None  # the label file of FLAT images, which `labels` reads
    table: tables.Table | None = None  # the classes of TABLE
    pattern: str = ""  # the pattern of PATTERN
    # The class for the name that a table gives it.
    renamed: Mapping[str, str] = field(default_factory=dict)
    of: str = ""


class Placed(NamedTuple):
    """The split and class of an image, or the rule that leaves it out."""

    split: str
    class_name: str = ""
    rule: Rule | None = None


@dataclass
class Decision:
    """Which images have which class and split."""

    layout: str  # one of `choice.LAYOUTS`
    said: str
    parts: dict[str, Part]  # by split, TRAINING or VALIDATION
    rules: dict[str, Rule]  # by the folder whose images they leave out
    where: str
    warnings: tuple[str, ...] = ()  # what may be meant otherwise
    # The split of an image that the user chose; None if folders decide.
    select: Selection | None = None
    remedy: str = ""  # the lines that allow what is left out
    # The images left out by each rule, with the path of one.
    left_out: dict[Rule, tuple[int, str]] = field(default_factory=dict)
    images: int = 0  # those that were placed
    # Of the training images that were placed.
    classes: set[str] = field(default_factory=set)
    has_splits: bool = False
    one_class: str = ""  # what is wrong if there is one class

    def __post_init__(self) -> None:
        self._roots = sorted(
            ((root, split) for split, part in self.parts.items() for root in part.roots),
            key=lambda one: -len(one[0]),
        )
        self._last = "\0", Placed("")

    def place(self, path: str, label: str) -> Placed:
        """Place an image.

        Raises:
            InputError: a table or pattern gives it no class, or its class's name is wrong.
        """
        folder = path.rpartition("/")[0]
        if self.select is not None:
            split = self.select.split_of(path)
            placed = self._in_part(folder, split) if split else Placed("", rule=NOT_CHOSEN)
        else:
            if folder != self._last[0]:
                self._last = folder, self._of_folder(folder)
            placed = self._last[1]
        if placed.rule is not None:
            self.leave_out(placed.rule, path)
            return placed
        self.images += 1
        part = self.parts[placed.split]
        if part.by in (SAMPLES, TABLE, PATTERN):
            name = _label_of(part, path, label, self.where)
            placed = Placed(placed.split, class_name_in(name, self.where))
        if placed.split == TRAINING:
            self.classes.add(placed.class_name)
        return placed

    def leave_out(self, rule: Rule, path: str) -> None:
        self.images += 1
        count, example = self.left_out.get(rule, (0, path))
        self.left_out[rule] = count + 1, example

    def empty_class(self, path: str) -> str:
        """The class of a folder or archive without images; empty if it is none."""
        part = self.parts[TRAINING]
        above, _, name = path.rpartition("/")
        if part.by == ARCHIVES and name.endswith(_ARCHIVE_SUFFIXES):
            return _without_suffix(name)
        return name if part.by == FOLDERS and part.level == 1 and above in part.roots else ""

    def require_classes(self) -> None:
        """Check, after all are placed, that the training images are of several classes."""
        if len(self.classes) < 2:
            raise InputError(
                self.one_class
                or f"{self.where}: all its images are of one class, "
                f"{readable(next(iter(self.classes), 'none'))} ({self.said}); a network needs two "
                "or more: choose the classes by --class-level (source.classLevel) or by a table, "
                "--labels-csv (source.labels)"
            )

    def check(self) -> None:
        """Check, after all are placed, that rules which nobody wrote leave out at most 1 %."""
        counted = {rule: found for rule, found in self.left_out.items() if rule.is_counted}
        images = sum(count for count, _ in counted.values())
        if images > _MOST_LEFT_OUT * self.images:
            what = ", ".join(
                f"{count} {rule.name} (such as {readable(example)})"
                for rule, (count, example) in counted.items()
            )
            raise InputError(
                f"{self.where}: {images} of {self.images} images would be left out: {what}; "
                f"to leave them out, {self.remedy}"
            )

    def _of_folder(self, folder: str) -> Placed:
        ruling = max((one for one in self.rules if _is_in(folder, one)), key=len, default=None)
        root, split = next(
            ((one, split) for one, split in self._roots if _is_in(folder, one)), (None, "")
        )
        if ruling is not None and (root is None or len(ruling) >= len(root)):
            return Placed("", rule=self.rules[ruling])
        if root is None:
            return Placed("", rule=BESIDE_SPLITS if self.has_splits else BESIDE_CLASSES)
        return self._in_part(folder, split)

    def _in_part(self, folder: str, split: str) -> Placed:
        part = self.parts[split]
        if part.by not in (FOLDERS, ARCHIVES):
            return Placed(split)
        root = next((one for one in part.roots if _is_in(folder, one)), None)
        if root is None:
            return Placed("", rule=BESIDE_CLASSES)
        below = folder[len(root) :].lstrip("/").split("/") if folder != root else []
        if part.by == ARCHIVES:
            below = [name for name in below if name.endswith(_ARCHIVE_SUFFIXES)][:1]
        if len(below) < part.level:
            return Placed("", rule=BESIDE_CLASSES)
        name = below[part.level - 1]
        if part.by == ARCHIVES:
            name = _without_suffix(name)
        return Placed(split, class_name_in(name, self.where))


def _is_in(folder: str, root: str) -> bool:
    return not root or folder == root or folder.startswith(f"{root}/")


def _without_suffix(name: str) -> str:
    return next((name.removesuffix(one) for one in _ARCHIVE_SUFFIXES if name.endswith(one)), name)


def _label_of(part: Part, path: str, label: str, where: str) -> str:
    if part.by == SAMPLES:
        if not label:
            raise InputError(f"{where}: {readable(path)}: has no class; write it into its .cls")
        return label
    if part.table is not None:
        found = part.table.label_of(path)
        if found is None:
            raise InputError(
                f"{part.table.file}: has no line for the image {readable(path)}; add it, or name "
                "the images that have one by splits (--split-train)"
            )
        return part.renamed.get(found, found)
    match = re.search(part.pattern, path.rpartition("/")[2])
    if match is None or not match[1]:
        raise InputError(
            f"{where}: the pattern {part.pattern!r} (labels.pattern) finds no class in the name of "
            f"{readable(path)}; correct it, or name the images by splits (--split-train)"
        )
    return str(match[1])


def decide(survey: Survey, choice: Choice) -> Decision:
    """Decides how the images of a source are read.

    Raises:
        InputError: no layout fits, or several do; the message has the lines that choose.
    """
    survey.contents.image = survey.root.any_example()
    survey.contents.layout(choice)
    decision = _Judge(survey, choice).decision()
    if choice.is_given and not decision.said.endswith(")"):
        decision.said += " (as chosen)"
    return decision


class _Judge:
    def __init__(self, survey: Survey, choice: Choice) -> None:
        self.survey = survey
        self.choice = choice
        self.where = survey.where
        self.rules: dict[str, Rule] = {}
        self.warnings: list[str] = []
        self.split_paths: set[str] = set()
        self.one_class = ""
        self._tables: tables.FoundTables | None = None

    def decision(self) -> Decision:
        root = self.survey.root
        labelled, is_asked = root.labels(), self.choice.layout == choices.WEB_DATASET
        # All images have a label beside them, or none.
        if (is_asked or labelled > 0) and labelled < root.total and not self._ignores_samples():
            images = (path for path, _, label in self.survey.images() if not label)
            raise self._unlabelled(next(images, root.any_example()))
        if self.choice.has_splits:
            return self._chosen_splits()
        if self.choice.layout != choices.CLASS_FOLDERS:
            level = self._split_level(root)
            if level is not None:
                return self._tree(*level)
        if self.choice.layout in (choices.TREE, choices.KAGGLE, choices.DEVKIT):
            raise self._refused(
                f"is no {self.choice.layout} (--layout, source.layout): it has no folders of a "
                "training split and another one beside it; remove layout, or "
                "name the splits by --split-train GLOB --split-validation GLOB (source.splits)"
            )
        return self._one_split(root)

    # --- labels beside the images ---

    def _unlabelled(self, image: str) -> InputError:
        root = self.survey.root
        return self._refused(
            f"{readable(image)}: has no class; write it into a .cls or .json of its stem "
            f"({root.labels()} of {root.total} images have one), or choose another layout, such as "
            "--layout classFolders (source.layout)"
        )

    def _ignores_samples(self) -> bool:
        return self.choice.has_labels or self.choice.layout not in ("", choices.WEB_DATASET)

    def _are_samples(self, nodes: Iterable[Node]) -> bool:
        every = list(nodes)
        total = sum(node.total for node in every)
        return (
            total == sum(one.labels() for one in every)
            and total > 0
            and not self._ignores_samples()
        )

    # --- splits ---

    def _split_level(self, node: Node) -> tuple[Node, Mapping[str, str]] | None:
        """The folder whose folders are splits, and the split of each; None without one."""
        while True:
            found = splits(node.below)
            kinds = {*found.values()} - {""}
            if TRAINING in kinds and len(kinds) > 1:
                return node, found
            if len(kinds) and self._are_samples([node]) and not all(found.values()) and found:
                named, other = (
                    next(name for name, one in found.items() if bool(one) is is_named)
                    for is_named in (True, False)
                )
                raise self._refused(
                    f"{readable(named)} names a split and {readable(other)} none; "
                    + split_lines([re.sub(r"\d+", "*", join(node.path, named)) + "/**"], [])
                )
            if node.images:
                return None
            below = [*node.below.values()]
            if len(below) > 1:
                below = [node.below[name] for name in devkit.KAGGLE if name in node.below][:1]
            if len(below) != 1:
                return None
            (node,) = below

    def _tree(self, level: Node, found: Mapping[str, str]) -> Decision:
        of = {
            split: [level.below[name] for name, one in found.items() if one == split]
            for split in (TRAINING, VALIDATION, TEST, UNLABELLED)
        }
        self._leave_copies(level)
        self.split_paths = {node.path for nodes in of.values() for node in nodes}
        for node in of[UNLABELLED]:
            self.rules[node.path] = NO_LABELS
        known = _class_names(one for nodes in of.values() for one in nodes)
        training = self._part(of[TRAINING], TRAINING, known)
        if training is None:
            raise self._flat(of[TRAINING])
        parts = {TRAINING: training}
        validation, test = self._validation(of, known, training)
        if self.choice.validates != choices.OWN:
            for node in (*of[VALIDATION], *of[TEST]):
                self.rules[node.path] = OTHER_VALIDATION
        elif validation is not None:
            parts[VALIDATION] = self._renamed(validation, training, of[TRAINING])
        if not test:
            for node in of[TEST]:
                self.rules.setdefault(node.path, TEST_SPLIT)
        self._check_levels(training, [self._node(root) for root in training.roots])
        chosen = of[TEST] if test else of[VALIDATION]
        remedy = split_lines(
            [f"{node.path}/**" for node in of[TRAINING]],
            [f"{node.path}/**" for node in chosen] if VALIDATION in parts else [],
        )
        decision = self._decided(parts, remedy, level=level, is_test=test)
        wanted = self.choice.layout
        if wanted in (choices.DEVKIT, choices.KAGGLE) and decision.layout != wanted:
            raise self._refused(
                f"is no {wanted} (--layout, source.layout), by the names of its "
                f"folders and label files: it is read as {decision.layout}; remove layout"
            )
        return decision

    def _validation(
        self, of: Mapping[str, list[Node]], known: set[str], training: Part
    ) -> tuple[Part | None, bool]:
        """The validation images, and whether they are those of the test split."""
        if self.choice.validates != choices.OWN:
            return None, False
        if of[VALIDATION]:
            part = self._part(of[VALIDATION], VALIDATION, known)
            if part is None:
                where = readable(self.survey.place(of[VALIDATION][0].path))
                raise InputError(f"{where}: {devkit.UNLABELLED}{self._hints()}")
            return part, False
        part = self._part(of[TEST], TEST, known) if of[TEST] else None
        # Folders of a test split that are no classes of the training images say nothing.
        is_test = part is not None and (
            part.by not in (FOLDERS, ARCHIVES)
            or training.by not in (FOLDERS, ARCHIVES)
            or bool(self._classes(part) & self._classes(training))
        )
        return (part, True) if is_test else (None, False)

    def _chosen_splits(self) -> Decision:
        selection = Selection.of(self.choice, self.survey)
        of = selection.surveys(self.survey)
        known = _class_names(one.root for one in of.values())
        parts: dict[str, Part] = {}
        for split, chosen in of.items():
            part = self._part([chosen.root], split, known, chosen)
            if part is None:
                raise self._flat([chosen.root])
            parts[split] = part
        if self.choice.validates != choices.OWN:
            parts.pop(VALIDATION, None)
        training = parts[TRAINING]
        if VALIDATION in parts:
            parts[VALIDATION] = self._renamed(parts[VALIDATION], training, [of[TRAINING].root])
        top = of[TRAINING].root
        self._check_levels(training, [top.at(root) or top for root in training.roots])
        remedy = "choose others by splits (--split-train)"
        return self._decided(parts, remedy, select=selection)

    def _one_split(self, root: Node) -> Decision:
        node = root
        while not node.images and len(node.below) == 1:
            (below,) = node.below.values()
            if not below.below:
                break
            node = below
        self._leave_copies(node)
        part = self._part([root], TRAINING, set())
        if part is None:
            inner = _collapsed(root, set())
            if inner is root or inner.path == self.survey.start:
                raise self._flat([root])
            # One class, perhaps: whoever needs two refuses it.
            self.one_class = str(self._flat([root], in_one_folder=True))
            by = ARCHIVES if root.archives() else FOLDERS
            part = Part(by, (self.survey.start,), of=root.path)
        self._check_levels(part, [self._node(one) for one in part.roots])
        remedy = split_lines([f"{part.roots[0]}/*/**".lstrip("/")], [])
        return self._decided({TRAINING: part}, remedy)

    def _decided(
        self,
        parts: dict[str, Part],
        remedy: str,
        *,
        level: Node | None = None,
        is_test: bool = False,
        select: Selection | None = None,
    ) -> Decision:
        training, validation = parts[TRAINING], parts.get(VALIDATION)
        layout = self._layout(training, validation, level)
        return Decision(
            layout=layout,
            said=self._said(layout, training, validation, is_test=is_test),
            parts=parts,
            rules=self.rules,
            where=self.where,
            warnings=tuple(self.warnings),
            select=select,
            remedy=remedy,
            has_splits=level is not None,
            one_class=self.one_class,
        )

    # --- classes ---

    def _part(
        self, nodes: Sequence[Node], split: str, known: set[str], survey: Survey | None = None
    ) -> Part | None:
        """How the images of a split get their classes; None if nothing says it."""
        of = nodes[0].path
        paths = tuple(node.path for node in nodes)
        if self._are_samples(nodes):
            return Part(SAMPLES, paths, of=of)
        if self.choice.labels_pattern:
            return Part(PATTERN, paths, pattern=self.choice.labels_pattern, of=of)
        if self._tables is None:
            self._tables = tables.FoundTables(self.survey)
        found = self._tables
        if self.choice.labels_table:
            return Part(TABLE, paths, table=found.chosen(self.choice), of=of)
        if split != TRAINING and len(nodes) == 1:
            labels = self.survey.file(join(of, devkit.ANNOTATIONS))
            if labels is not None:
                return Part(FLAT, (_collapsed(nodes[0], known).path,), labels=labels, of=of)
        roots = [_collapsed(node, known) for node in nodes]
        flat = [root for root in roots if not root.below]
        if self.choice.layout not in (choices.CLASS_FOLDERS, choices.TREE) or flat:
            class_roots = [root.path for root in roots if root.below]
            if survey is not None:
                found = tables.FoundTables(self.survey, survey)
            table = found.labels(nodes, class_roots, [*self.split_paths - {*paths}])
            if table is not None:
                return Part(TABLE, paths, table=table, of=of)
        return self._by_folders(roots, split, of)

    def _by_folders(self, roots: Sequence[Node], split: str, of: str) -> Part | None:
        """Class folders or archives; the label file of a known data set; None for neither."""
        flat = [root for root in roots if not root.below]
        if not flat:
            inside = [root.archives() for root in roots]
            is_archives = not self.choice.class_level and all(
                one and len(root.below) > 1 for one, root in zip(inside, roots, strict=True)
            )
            if is_archives:
                counts = Counter(node.name for archives in inside for node in archives)
                twice = next((name for name, number in counts.items() if number > 1), None)
                if twice is not None:
                    raise self._refused(
                        f"holds two archives called {readable(twice)}; a class must be in one, so "
                        "rename one, or write --class-level 1 (source.classLevel) for the folders "
                        "above them"
                    )
            level = 1 if is_archives else self.choice.class_level or 1
            by = ARCHIVES if is_archives else FOLDERS
            return Part(by, tuple(root.path for root in roots), level=level, of=of)
        if split == VALIDATION and len(flat) == len(roots) == 1:
            labels = devkit.above(self.survey.file, of, devkit.LABEL_FILES)
            if labels is not None:
                return Part(FLAT, (roots[0].path,), labels=labels, of=of)
        return None

    def _renamed(self, part: Part, training: Part, nodes: Sequence[Node]) -> Part:
        """A part whose table writes 0 for the class folder 00000."""
        if part.table is None or training.by not in (FOLDERS, ARCHIVES):
            return part
        classes = self._classes(training)
        numbers = {int(name): name for name in classes if name.isascii() and name.isdigit()}
        renamed = {
            name: numbers[int(name)]
            for name in part.table.classes
            if name not in classes and name.isascii() and name.isdigit() and int(name) in numbers
        }
        return replace(part, renamed=renamed)

    def _node(self, path: str) -> Node:
        node = self.survey.root.at(path)
        assert node is not None
        return node

    def _classes(self, part: Part) -> set[str]:
        names: set[str] = set()
        for root in part.roots:
            node = self.survey.root.at(root)
            if node is None:
                continue
            if part.by == ARCHIVES:
                names.update(_without_suffix(one.name) for one in node.archives())
            else:
                names.update(one.name for one in _at_level(node, part.level))
        return names

    def _leave_copies(self, node: Node) -> None:
        """Leaves out a folder that holds its siblings once more."""
        for name, inner in node.below.items():
            others = {key: one for key, one in node.below.items() if key != name}
            same = others.keys() & inner.below.keys()
            if len(same) < 2 or len(same) < len(inner.below):
                continue
            is_equal = all(
                others[key].fingerprint() == inner.below[key].fingerprint() for key in same
            )
            if is_equal and not inner.images:
                self.rules[inner.path] = COPY
            elif len(same) == len(others):
                raise self._refused(
                    f"{readable(inner.path)} holds {_listed(sorted(same))} once more, with other "
                    f"images than beside it; {split_lines([f'{inner.path}/**'], [])} for those "
                    "in it, or delete one of the two"
                )

    def _check_levels(self, part: Part, roots: Sequence[Node]) -> None:
        """Checks that the class folders are classes, and warns of folders below them."""
        if part.by not in (FOLDERS, ARCHIVES):
            return
        if part.by == ARCHIVES:
            classes = [one for root in roots for one in root.archives()]
        else:
            classes = [one for root in roots for one in _at_level(root, part.level)]
        classes = [one for one in classes if self.rules.get(one.path) is not COPY]
        names = {one.name for one in classes}
        if len(names) < 2:
            deeper = len({one.name for root in roots for one in _at_level(root, 2)})
            level = (
                f"; write --class-level 2 (source.classLevel: 2) for the {deeper} folders below it"
                if deeper > 1
                else ""
            )
            self.one_class = self.one_class or (
                f"{self.where}: has one class, {_listed(sorted(names)) or 'none'}{level}; a "
                f"network needs two or more{self._hints()}"
            )
            return
        if self.choice.class_level or self.choice.layout == choices.CLASS_FOLDERS:
            return
        self._require_no_variants(classes)
        self._require_no_letters(classes)
        if all(set(words(name)) <= _NO_CLASSES and words(name) for name in names):
            pictures = [one for one in classes if set(words(one.name)) & _PICTURES]
            (first, *_) = pictures or classes
            raise self._refused(
                f"{_listed(sorted(names))} are no classes by their names; name the folder of the "
                f"images by {split_lines([f'{first.path}/**'], [], is_sentence=False)}"
                f"{self._hints()}; or write --layout classFolders (source.layout)"
            )
        several = [one for one in classes if one.folders() + bool(one.images) > 1]
        if several:
            below, next_level = sum(one.folders() for one in classes), part.level + 1
            self.warnings.append(
                f"classes are the {len(names)} {part.by} at level {part.level}; their images lie "
                f"in {below} folders below: --class-level {next_level} (classLevel: {next_level}) "
                "makes those the classes"
            )

    def _require_no_variants(self, classes: Sequence[Node]) -> None:
        """Refuses folders that share names of folders, such as color and grayscale."""
        seen: dict[tuple[str, str], Node] = {}
        for one, of in ((_collapsed(folder, set()), folder) for folder in classes):
            below = sorted(one.below)[:40]
            pairs = [(a, b) for number, a in enumerate(below) for b in below[number + 1 :]]
            first = next((seen[pair] for pair in pairs if pair in seen), None)
            if first is not None:
                shared = sorted(first.below.keys() & one.below.keys())
                level = 2 + one.path.count("/") - of.path.count("/")
                raise self._refused(
                    f"{readable(first.path)} and {readable(one.path)} both hold {_listed(shared)}: "
                    f"if those are the classes, choose one folder: "
                    f"{split_lines([f'{first.path}/**'], [], is_sentence=False)}, or join them: "
                    f"--class-level {level} (source.classLevel: {level}); if the folders above are "
                    f"the "
                    f"{len(classes)} classes, write --class-level 1 (source.classLevel: 1)"
                )
            seen.update(dict.fromkeys(pairs, one))

    def _require_no_letters(self, classes: Sequence[Node]) -> None:
        letters = [
            one
            for one in classes
            if len(one.name) == 1
            and one.below
            and all(name[:1].lower() == one.name.lower() for name in one.below)
        ]
        if letters and len(letters) == len(classes):
            below = sum(len(one.below) for one in classes)
            raise self._refused(
                f"its folders ({_listed([one.name for one in classes])}) are the first letters of "
                f"the folders below, and no classes; write --class-level 2 (source.classLevel: 2) "
                f"for those {below}"
            )

    # --- words ---

    def _layout(self, training: Part, validation: Part | None, level: Node | None) -> str:
        if training.by == SAMPLES:
            return choices.WEB_DATASET
        if training.by in (TABLE, PATTERN):
            return choices.LABELS
        if level is not None and tuple(level.path.split("/"))[-3:] == devkit.KAGGLE:
            return choices.KAGGLE
        labels = None if validation is None else validation.labels
        if labels is not None and devkit.is_of_kit(labels):
            return choices.DEVKIT
        return choices.CLASS_FOLDERS if validation is None and level is None else choices.TREE

    def _said(self, layout: str, training: Part, validation: Part | None, *, is_test: bool) -> str:
        text = f"{layout}: {self._of_part(training)}"
        if validation is not None:
            where = _listed([one or "the source" for one in validation.roots])
            how = "" if validation.by == training.by else f", {self._of_part(validation)}"
            is_named = " (the test split, as there is no other with labels)" if is_test else ""
            text += f"; validation: {where}{how}{is_named}"
        for path in self.survey.unlisted:
            self.rules.setdefault(path, TEST_SPLIT)
        for name in dict.fromkeys(rule.name for rule in self.rules.values()):
            paths = [path for path, rule in self.rules.items() if rule.name == name]
            text += f"; left out: {_listed(paths)} ({name})"
        return text

    def _of_part(self, part: Part) -> str:
        if part.by == SAMPLES:
            nodes = [self._node(root) for root in part.roots]
            shards = sum(max(1, len(node.archives())) for node in nodes)
            return f"{count(shards, 'shard')}, labels beside the images"
        if part.by == TABLE:
            assert part.table is not None
            return f"labels of {_base(str(part.table.file))}"
        if part.by == PATTERN:
            return f"labels by the pattern {part.pattern}"
        if part.by == FLAT:
            return f"labels of {_base(str(part.labels))}"
        where = _listed([one for one in part.roots if one])
        below = f" below {where}" if where else ""
        if part.by == ARCHIVES:
            return f"classes are the archives{below}"
        nodes = [node for root in part.roots if (node := self.survey.root.at(root)) is not None]
        deeper = max(
            (one.depth() for node in nodes for one in _at_level(node, part.level)), default=0
        )
        lie = f"; images lie up to {deeper} deeper" if deeper else ""
        return f"classes are the folders at level {part.level}{below}{lie}"

    def _flat(self, nodes: Sequence[Node], *, in_one_folder: bool = False) -> InputError:
        """The error for images in no folders, or in a single one; the caller raises it."""
        if self.survey.unlabelled:
            return self._unlabelled(self.survey.unlabelled)
        example = nodes[0].any_example()
        where = f"{_listed([node.path for node in nodes])}: " if nodes[0].path else ""
        if self.split_paths:
            where = f"{_listed(sorted(self.split_paths))} are splits, not classes; {where}"
        pattern = pattern_line(path for path, _, _ in self.survey.images())
        named = f"; or label them by their names: {pattern}" if pattern else ""
        lie = (
            "are in one folder, and a network needs two or more classes; "
            if in_one_folder
            else "are in no folders, so they have no classes; "
        )
        if not in_one_folder and not self.split_paths:
            lie += self.survey.remedy
        return self._refused(
            f"{where}its images (such as {readable(example)}) {lie}"
            "give a table of them by --labels-csv FILE "
            "(source.labels), or give them as "
            "--validation-source (validation.path) with --validation-labels (validation.labels)"
            f"{named}{self._hints()}"
        )

    def _hints(self) -> str:
        return tables.hints(self.survey.tables)

    def _refused(self, what: str) -> InputError:
        return InputError(f"{self.where}: {what}")


_PICTURES = frozenset(("images", "image", "imgs", "img", "jpg", "jpeg", "pictures", "photos"))
# Folders of these names alone hold parts of a data set, and not classes.
_NO_CLASSES = frozenset((
    "images", "image", "imgs", "img", "jpg", "jpeg", "jpegs", "png", "pictures", "photos", "masks",
    "mask", "annotations", "annotation", "labels", "label", "trimaps", "segmentations", "part",
    "segmentation", "depth", "groundtruth", "gt", "data", "dataset", "set", "folder", "archive",
))  # fmt: skip


def _base(path: str) -> str:
    return path.rpartition("/")[2].rpartition(": ")[2]


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(readable(name) for name in names[:most]) + more


def _at_level(node: Node, level: int) -> list[Node]:
    nodes = [node]
    for _ in range(level):
        nodes = [below for one in nodes for below in one.below.values() if below.total]
    return nodes


def _collapsed(node: Node, known: set[str]) -> Node:
    """The folder at the end of a chain of single folders, none of which is a class."""
    while not node.images and len(node.below) == 1:
        (below,) = node.below.values()
        if not below.below and below.name in known:
            break
        node = below
    return node


def _class_names(nodes: Iterable[Node]) -> set[str]:
    """The names of the folders that may be classes of any split."""
    found: set[str] = set()
    for node in nodes:
        inner = _collapsed(node, set())
        if len(inner.below) > 1:
            found.update(inner.below)
    return found
