"""Accounts, roles and their privileges, at the sources and at the target of a task.

stored     one account as a server has it
statement  what SHOW CREATE USER and SHOW GRANTS print
reading    the accounts of one server that have to do with a task
adapted    a source's account as the target is to have it, and the statements that make it
survey     both sides of a task, and what differs
"""
