"""What is wrong with a file: every problem with its place, what was expected, and a suggestion.

All problems of a file are reported at once, because a file that is corrected one complaint at a time is what users of
every tool of this kind complain about. No problem ever shows a value that stands where a secret may stand: texts of
values enter a problem only through the scalar types of `dm.config.scalar`, none of which is used for passwords.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dm.errors import CATALOGUE, DMError


class TextPlace(NamedTuple):
    """A place in a text, both numbers counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct (or, in `warnings`, to know) in a file."""

    file: str
    line: int
    column: int
    path: str  # "mysql-instances[0].meta.binlog-pos"; empty for the file as a whole
    message: str
    expected: str = ""
    suggestion: str = ""
    code: int = 0

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: "
        if self.path:
            text += f"{self.path}: "
        text += self.message
        if self.expected:
            text += f"; expected {self.expected}"
        if self.suggestion:
            text += f"; {self.suggestion}"
        return f"{text} [{self.code}]"


class ConfigErrors(DMError):
    """Raised with all problems of a file."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = "one problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(
            "config-invalid", file=file, count=count, problems="\n".join(str(problem) for problem in self.problems)
        )


@dataclass(slots=True)
class ProblemReport:
    """Collects the problems and warnings of one file."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    misspelt: set[str] = field(default_factory=set)  # paths of keys that an unknown key may be meant for

    def add(
        self,
        kind: str,
        mark: TextPlace,
        path: str,
        *,
        expected: str = "",
        suggestion: str = "",
        warning: bool = False,
        **details: object,
    ) -> None:
        """Record one problem of the catalogue's kind; a warning does not make the file unusable."""
        entry = CATALOGUE[kind]
        problem = Problem(
            file=self.file,
            line=mark.line,
            column=mark.column,
            path=path,
            message=entry.message.format(**details),
            expected=expected or entry.workaround,
            suggestion=suggestion,
            code=entry.code,
        )
        target = self.warnings if warning else self.problems
        if problem not in target:
            target.append(problem)

    def gathered_warnings(self) -> list[Problem]:
        """The warnings; more than one deprecated key are one: a file that DM has printed holds twenty of them."""
        code = CATALOGUE["config-deprecated-key"].code
        old = sorted((warning for warning in self.warnings if warning.code == code), key=lambda each: each.line)
        others = [warning for warning in self.warnings if warning.code != code]
        if len(old) < 2:
            return old + others
        lines: dict[tuple[str, str], list[int]] = {}
        for warning in old:
            lines.setdefault((warning.path.rpartition(".")[2], warning.suggestion), []).append(warning.line)
        keys = ", ".join(_listed(key, advice, at) for (key, advice), at in lines.items())
        entry = CATALOGUE["config-deprecated-keys"]
        first = old[0]
        message = entry.message.format(keys=keys)
        return [Problem(first.file, first.line, first.column, "", message, entry.workaround, "", entry.code), *others]

    def raise_if_any(self) -> None:
        """Raise ConfigErrors when a problem was recorded, in the order of the file."""
        if self.problems:
            raise ConfigErrors(self.file, sorted(self.problems, key=lambda problem: (problem.line, problem.column)))


def _listed(key: str, advice: str, lines: list[int]) -> str:
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(str(line) for line in lines)}"
    return f"`{key}` ({where}" + ("" if advice.startswith("leave it out") else f": {advice}") + ")"


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that this one may be meant for; empty when none is close."""
    by_folded = {candidate.lower().replace("_", "-"): candidate for candidate in known}
    close = difflib.get_close_matches(word.lower().replace("_", "-"), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion when some known word is close, else nothing."""
    meant = closest(word, known)
    return f"did you mean `{meant}`?" if meant else ""


def one_of_text(words: Iterable[str]) -> str:
    """How a message lists the possible words."""
    return ", ".join(f"`{word}`" for word in words if word)
