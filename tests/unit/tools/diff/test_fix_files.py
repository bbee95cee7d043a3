"""The files of `--fix-sql`."""

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.tools.diff.fix import Fix, FixFiles

TABLE = TableName("s", "a/b")


def test_deletions_come_first_and_nothing_is_left_of_an_earlier_comparison(tmp_path: Path) -> None:
    for _ in range(2):
        files = FixFiles(tmp_path / "deep" / "fix")
        with files.held():
            files.begin([TABLE])
            assert not list((tmp_path / "deep" / "fix").glob("*a%002fb.sql"))
            assert files.write(TABLE, [Fix(impossible="nobody knows")]) == ""
            path = files.write(TABLE, [Fix(insertions=(b"INSERT 1",)), Fix(deletions=(b"DELETE 1",))])
            assert files.write(TABLE, [Fix(insertions=(b"INSERT 2",))]) == path
            assert files.write(TABLE, []) == path
    assert Path(path).name == "s.a%002fb.sql"
    head, *statements = Path(path).read_text().split(";\n")[-4:-1]
    assert statements == ["INSERT 1", "INSERT 2"]
    assert head.endswith("DELETE 1")
    assert Path(path).read_text().count("DELETE 1") == 1
    with files.held():
        files.begin([TableName("s", "other")])
        assert Path(path).exists(), "this table is not looked at"


def test_what_is_not_executed_is_a_comment_with_its_reason(tmp_path: Path) -> None:
    files = FixFiles(tmp_path)
    with files.held():
        files.begin([TABLE])
        kept = [Fix(kept=(each,), why_kept="so it is") for each in (b"DELETE 1", b"DELETE 'a\nDROP TABLE b'")]
        path = files.write(TABLE, kept)
        assert files.write(TABLE, [Fix(deletions=(b"DELETE 2",))]) == path
    lines = Path(path).read_text().splitlines()
    begin = lines.index("-- Not deleted, since so it is")
    assert lines[begin + 1 :] == ["-- DELETE 1;", "-- DELETE 'a", "-- DROP TABLE b';", "DELETE 2;"]


def test_a_directory_is_of_one_comparison_at_a_time(tmp_path: Path) -> None:
    with FixFiles(tmp_path).held():
        with pytest.raises(DMError) as caught, FixFiles(tmp_path).held():
            pass
        assert caught.value.name == "diff-fix-busy"
    with FixFiles(tmp_path).held():
        pass


def test_a_place_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DMError) as caught, FixFiles(tmp_path / "file" / "fix").held():
        pass
    assert caught.value.name == "diff-fix-unwritable"
    (tmp_path / "s.a%002fb.sql").mkdir()
    with pytest.raises(DMError) as caught:
        FixFiles(tmp_path).write(TABLE, [Fix(deletions=(b"DELETE 1",))])
    assert caught.value.name == "diff-fix-unwritable"
