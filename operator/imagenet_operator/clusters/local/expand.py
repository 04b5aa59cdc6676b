"""`$(VAR)` in commands, arguments and environment values, expanded as a kubelet does.

`pods.py` uses it to turn a container's text into a process's. The rules are those of Kubernetes'
third_party/forked/golang/expansion: `$(NAME)` becomes the variable's value, an unknown name stays
as it is written, `$$` is a literal `$` (so that `$$(NAME)` gives `$(NAME)`), and nothing is
expanded twice.
"""

import re
from collections.abc import Mapping

# In order: an escaped operator, a reference up to the first ")".
_TOKEN = re.compile(r"\$\$|\$\(([^)]*)\)")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace the references in a text.

    Example:
        >>> expand("--data=$(DATA) $$(DATA) $(NONE)", {"DATA": "/data"})
        '--data=/data $(DATA) $(NONE)'
    """

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return variables.get(name, match.group(0))

    return _TOKEN.sub(replacement, text)
