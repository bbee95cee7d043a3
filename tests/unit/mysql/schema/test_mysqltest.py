"""Scripts of the long DDL corpus are cut into statements as the program that they are written for cuts them."""

from __future__ import annotations

from tests.live.schema.mysqltest import Script
from tests.live.schema.suite import replayed

_SCRIPT = """\
--source include/have_innodb.inc
# a comment; with a delimiter
let $type = INT;
--error ER_DUP
create table t1 (a char(5) default ';', # 'quoted' here
  -- don't stop; here
  b varchar(5) default 'it''s # no comment'); drop table t1;
eval create table t2 (a $type);
eval create table t3 (a $unknown);
if ($x)
{
  alter table t2 add b int;
}
delimiter |;
create procedure p() begin select 1; end|
alter table t2 add c int|
delimiter ;|
--write_file $dir/x
create table not_sent (a int);
EOF
set session sql_mode = 'ANSI';
set global sql_mode = '';
rename table mysql.a to mysql.b;
"""


def test_statements_are_cut_and_commands_left_out() -> None:
    sent = [statement.encode() for statement in Script(_SCRIPT).statements()]
    assert list(replayed(sent)) == [
        b"create table t1 (a char(5) default ';', # 'quoted' here\n"
        b"  -- don't stop; here\n  b varchar(5) default 'it''s # no comment')",
        b"drop table t1",
        b"create table t2 (a INT)",
        b"alter table t2 add b int",
        b"alter table t2 add c int",
        b"set session sql_mode = 'ANSI'",
    ]
