"""What is not a table: views, triggers, routines, events and accounts, at the sources and at the target.

stored        one object as a server stores it, with the session that it was created in
reading       the objects of schemas, read from one server
statement     the text of an object: its parts, and another text made of it
adapted       a source's object as the target is to have it
survey        both sides of a task, and what differs
at_target     objects created at the target, or tried there
accounts/     accounts, roles and their privileges
report        what differs, as JSON
task_objects  all of it for a task, as scripts or created: what `dmctl objects` calls
"""
