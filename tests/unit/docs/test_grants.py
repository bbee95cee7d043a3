"""The privileges that the README gives are those that the end-to-end cases run with."""

from __future__ import annotations

import re

from tests.testbed.cases import (
    APPLIER_GRANTS,
    FENCING_GRANTS,
    SOURCE_GRANTS,
    TARGET_GRANTS,
    TEMPORARY_GRANT,
    XA_GRANTS,
)
from tests.unit.docs.document import ROOT, blocks


def test_pages_that_need_a_privilege_more_give_the_same_statement() -> None:
    for name in ("validate.md", "filters-and-routes.md"):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert f"GRANT {TEMPORARY_GRANT} TO 'dm'@'%';" in " ".join(text.split()), name


def test_the_cases_run_with_the_grants_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = [re.sub(r"\s+", " ", grant) for grant in re.findall(r"GRANT ([^;]+?)\s+TO 'dm'@'%';", text)]
    assert found == [SOURCE_GRANTS["mysql"], TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS["mysql"]]
    assert APPLIER_GRANTS["mariadb"].split(",")[0] in text
    assert SOURCE_GRANTS["mariadb"] == SOURCE_GRANTS["mysql"].replace(", XA_RECOVER_ADMIN", "")


def test_the_tests_of_the_verb_run_with_the_grants_of_its_page() -> None:
    page = (ROOT / "docs" / "cut-over.md").read_text(encoding="utf-8")
    found = [
        re.findall(r"GRANT ([^;]+?)\s+TO 'dm'@'%';", block.text)
        for block in blocks(page)
        if block.text.startswith("-- for the verb")
    ]
    assert found == [[FENCING_GRANTS[flavor], *XA_GRANTS[flavor]] for flavor in ("mysql", "mariadb")]
