"""The shape of the house: small files, short functions, few arguments, field names, tests that mirror the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dm

PACKAGE = Path(dm.__file__).parent
TESTS = Path(__file__).parent
MOST_LINES = 600
MOST_LINES_OF_A_FUNCTION = 80
MOST_ARGUMENTS = 6
NOT_NOUNS = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
LINES_OF_DUST = 100
MOST_LINES_TOGETHER = 500
# Small modules with a single user beside them that are not part of it: what each stands for.
NOT_DUST = {
    "dm.changes.before_images": "how a server finds rows, where `event_rules` is about how it reads them",
    "dm.mysql.dialect.mariadb": "dialects have a file for each server",
    "dm.worker.dm_openapi.templates": "requests of DM's OpenAPI have a file for each subject",
    "dm.worker.elsewhere": "has a state and threads of its own, and tests without a daemon's verbs",
    "dm.worker.options": "the manual is made from it where the daemon's packages are not installed",
}
# Of the tests' folders, those about something that is not a package of dm.
NOT_OF_DM = {"benchmarks", "chaos", "docs"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def test_there_are_modules() -> None:
    assert len(MODULES) > 100


def classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_error_is_its_own_cause() -> None:
    """`raise (other or error) from error` is that where there is no other: its text would never end."""

    def named(node: ast.expr | None) -> set[str]:
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node is not None else set()

    found = [
        f"{module.relative_to(PACKAGE)}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.BoolOp) and isinstance(node.cause, ast.Name)
        if any(isinstance(value, ast.Name) and value.id in named(node.cause) for value in node.exc.values)
    ]
    assert found == []


def imported(module: Path) -> Iterator[str]:
    """The modules that one imports at its beginning, in a function or for its types alone."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_no_module_imports_one_that_imports_it() -> None:
    """Packages aside, which hand on what their modules have."""
    known = {dotted(path): path for path in MODULES if path.name != "__init__.py"}
    graph = {name: {each for each in imported(path) if each in known} - {name} for name, path in known.items()}
    assert len([*TopologicalSorter(graph).static_order()]) == len(known)  # raises CycleError with the circle


def dotted(path: Path) -> str:
    """The module's name; a package's where it is its `__init__`."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def users() -> dict[str, set[str]]:
    """Of each module the modules that import it, packages among them."""
    known = {dotted(path) for path in MODULES}
    found: dict[str, set[str]] = {name: set() for name in known}
    for path in MODULES:
        name = dotted(path)
        for each in {*imported(path)} & known - {name}:
            found[each].add(name)
    return found


def dust() -> Iterator[str]:
    """Small modules that a single module of their own folder imports, or its package, and that would fit into it."""
    files = {dotted(path): path for path in MODULES}
    long = {name: path.read_text(encoding="utf-8").count("\n") for name, path in files.items()}
    for name, by in users().items():
        folder = name.rpartition(".")[0]
        if files[name].name != "__init__.py" and long[name] < LINES_OF_DUST and len(by) == 1:
            (user,) = by
            if folder in (user, user.rpartition(".")[0]) and long[name] + long[user] <= MOST_LINES_TOGETHER:
                yield name


def test_a_small_module_with_one_user_is_part_of_it() -> None:
    """Or it is a notion of its own, and `NOT_DUST` says which."""
    assert sorted(dust()) == sorted(NOT_DUST)


def test_a_class_name_stands_once() -> None:
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for made in classes(ast.parse(module.read_text(encoding="utf-8"))):
            places.setdefault(made.name, []).append(f"{module.relative_to(PACKAGE)}:{made.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_call_of_a_program_is_its_last_line() -> None:
    """What stands after it is not there yet when the program runs."""
    found = [
        f"{module.relative_to(PACKAGE)}:{node.lineno}"
        for module in MODULES
        for node in ast.parse(module.read_text(encoding="utf-8")).body[:-1]
        if isinstance(node, ast.If) and "__main__" in ast.dump(node.test)
    ]
    assert found == []


def arguments_of_constructor(made: ast.ClassDef) -> int:
    """How many things the constructor takes, 0 where the class has none of its own."""
    for node in made.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            taken = node.args
            return len(taken.posonlyargs) + len(taken.args) + len(taken.kwonlyargs) - 1
    return 0


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_fits_in_a_head(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert text.count("\n") <= MOST_LINES
    assert [f"{each.name}: {lines(each)}" for each in functions(tree) if lines(each) > MOST_LINES_OF_A_FUNCTION] == []
    assert [
        f"{each.name}: {arguments_of_constructor(each)}"
        for each in classes(tree)
        if arguments_of_constructor(each) > MOST_ARGUMENTS
    ] == []
    assert module.stem not in NOT_NOUNS


def test_unit_tests_mirror_the_tree() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    unknown = {folder for folder in folders if not (PACKAGE / folder).is_dir() and folder.name not in NOT_OF_DM}
    assert unknown == set()
