"""What a framework says of itself without being imported.

A package of `frameworks` has one `FrameworkDescription`. The command line takes choices and checks
from it, the entry points find the framework's modules by it. Import-light: no framework, no numpy.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from imagenet_spec.frameworks.descriptor import Framework
from imagenet_spec.program.option import flag
from imagenet_spec.program.train import OPTIONS, ClusterOptions, Options, values_of
from imagenet_spec.strategies import STRATEGIES
from imagenet_workloads.errors import InputError


@dataclass(frozen=True)
class FrameworkDescription:
    """One framework.

    Attributes:
        library: the top-level package that it is imported as.
        package: the package of `frameworks` with its modules.
        option: the field of `ClusterOptions` that names its strategy.
        strategies: the module in the package's `strategies` for each value of that option.
        contradiction: names options that do not go together with it, or gives None.
        before_import: runs before its library is imported, for a cheaper import.
        serve: runs a member that is no worker, as the environment says, and gives its exit code;
            None where this process is a worker.
        explain_abort: raises an InputError if it finds why the library has aborted the process; it
            runs in another one, which has not imported the library.
        exports: the formats to which its module `exporter` writes a trained model.
        cuda: returns the version of CUDA that its imported library uses; None if it uses none.
    """

    has: Framework
    library: str
    package: str
    option: str
    strategies: Mapping[str, str]
    contradiction: Callable[[Options], str | None] = lambda options: None
    before_import: Callable[[], None] = lambda: None
    serve: Callable[[Options, Mapping[str, str]], int | None] = lambda options, variables: None
    explain_abort: Callable[[Options], None] = lambda options: None
    exports: tuple[str, ...] = ()
    cuda: Callable[[Any], str | None] = lambda library: None

    @property
    def name(self) -> str:
        return self.has.name

    def load(self, module: str) -> ModuleType:
        """Import one of the package's modules; the entry point has called `before_import`."""
        return importlib.import_module(f"{self.package}.{module}")

    def versions(self, *, has_gpus: bool) -> dict[str, str]:
        """Return the version of its imported library, and of CUDA if GPUs train."""
        library = sys.modules[self.library]
        found = {self.name: str(library.__version__)}
        cuda = self.cuda(library) if has_gpus else None
        return found if cuda is None else found | {"CUDA": cuda}

    @property
    def strategy_option(self) -> str:
        return flag(self.option)

    @property
    def rendezvous(self) -> Mapping[str, str]:
        """The module of `rendezvous` for each value of that option."""
        names = self.has.strategies_by(self.option)
        return {value: STRATEGIES[names[value]].rendezvous for value in self.strategies}

    def strategy_of(self, options: Options) -> str:
        """Return the strategy that a command line names.

        The option's default may be another framework's: it then is the first strategy of this one.
        """
        name: str = getattr(options.cluster, self.option)
        is_default = name == getattr(ClusterOptions, self.option)
        return next(iter(self.strategies)) if is_default and name not in self.strategies else name

    def lacking(self, options: Options) -> list[str]:
        given = values_of(options)
        refused = [
            item.flag
            for item in OPTIONS
            if item.name in self.has.lacks and given[item.name] != item.default
        ]
        return refused + [
            f"{flag(name)} {given[name]}"
            for name, values in self.has.lacks_values.items()
            if given[name] in values
        ]


def refuse_lacking(options: Options, frameworks: Mapping[str, FrameworkDescription]) -> None:
    """Refuse options that the chosen framework lacks, before anything waits for other members.

    InputError: names every such option, and the frameworks that have all of them.
    """
    refused = frameworks[options.cluster.framework].lacking(options)
    if not refused:
        return
    having = [name for name, other in frameworks.items() if not other.lacking(options)]
    verb = "has" if len(having) == 1 else "have"
    only = (
        f"only {' and '.join(having)} {verb} that; " if having else "no framework has all of that; "
    )
    instead = f", or write --framework {having[0]} (framework: {having[0]})" if having else ""
    raise InputError(f"{', '.join(refused)}: {only}leave it out{instead}")


def leave_out(packages: Iterable[str]) -> None:
    """Let imports fail of packages that a library imports if it finds them and does without."""
    for name in packages:
        # What `import` does with None is documented: ModuleNotFoundError.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
